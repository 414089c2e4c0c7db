# Question answering shaped as BERT is, small and with weights that a seed gives: ONNX Runtime's CUDA provider
# beside its CPU provider, on the same model.
import numpy as np
import onnx
import onnxruntime
from checks import check, close, done, same
from onnx import TensorProto, helper, numpy_helper

LAYERS, WIDTH, HEADS, LENGTH, WORDS, BATCH = 2, 64, 4, 24, 120, 2
rng = np.random.default_rng(31)
weights, nodes = [], []


def weight(name, *shape, scale=None):
    scale = 1 / np.sqrt(shape[0]) if scale is None else scale
    value = (rng.standard_normal(shape) * scale).astype(np.float32)
    weights.append(numpy_helper.from_array(value, name))
    return name


def constant(name, value):
    weights.append(numpy_helper.from_array(np.asarray(value), name))
    return name


def node(kind, inputs, out, **attributes):
    nodes.append(helper.make_node(kind, inputs, [out], **attributes))
    return out


def linear(x, name, inputs, outputs):
    product = node("MatMul", [x, weight(f"{name}.w", inputs, outputs)], f"{name}.product")
    return node("Add", [product, weight(f"{name}.b", outputs, scale=0.1)], f"{name}.out")


def normal(x, name):
    scale = constant(f"{name}.s", np.ones(WIDTH, np.float32))
    shift = weight(f"{name}.t", WIDTH, scale=0.1)
    return node("LayerNormalization", [x, scale, shift], f"{name}.out", axis=-1)


def heads(x, name, order):
    shape = constant(f"{name}.shape", np.array([BATCH, LENGTH, HEADS, WIDTH // HEADS], np.int64))
    return node("Transpose", [node("Reshape", [x, shape], f"{name}.apart")], f"{name}.heads", perm=order)


def attention(x, name):
    parts = (linear(x, f"{name}.{one}", WIDTH, WIDTH) for one in "qkv")
    orders = ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3))
    q, k, v = (heads(part, f"{name}.{one}", order) for part, one, order in zip(parts, "qkv", orders))
    scores = node("MatMul", [q, k], f"{name}.scores")
    root = constant(f"{name}.root", np.float32(np.sqrt(WIDTH // HEADS)))
    scaled = node("Add", [node("Div", [scores, root], f"{name}.scaled"), "shade"], f"{name}.shaded")
    share = node("Softmax", [scaled], f"{name}.share", axis=-1)
    mixed = node("Transpose", [node("MatMul", [share, v], f"{name}.mixed")], f"{name}.back", perm=(0, 2, 1, 3))
    shape = constant(f"{name}.whole", np.array([BATCH, LENGTH, WIDTH], np.int64))
    return linear(node("Reshape", [mixed, shape], f"{name}.joined"), f"{name}.o", WIDTH, WIDTH)


def gelu(x, name):
    root, one, half = (constant(f"{name}.{n}", np.float32(v)) for n, v in (("r", 2**0.5), ("1", 1), ("h", 0.5)))
    erf = node("Erf", [node("Div", [x, root], f"{name}.d")], f"{name}.erf")
    return node("Mul", [node("Mul", [x, node("Add", [erf, one], f"{name}.a")], f"{name}.m"), half], f"{name}.out")


def model():
    words = node("Gather", [weight("words", WORDS, WIDTH, scale=1), "tokens"], "embedded")
    placed = node("Add", [words, weight("places", LENGTH, WIDTH, scale=0.5)], "placed")
    sides = node("Gather", [weight("sides", 2, WIDTH, scale=0.5), "side"], "sided")
    x = normal(node("Add", [placed, sides], "sum"), "first")
    # What is padding is seen by nobody.
    far = constant("far", np.float32(-1e4))
    one = constant("one", np.float32(1))
    axes = constant("axes", np.array([1, 2], np.int64))
    hidden = node("Mul", [node("Sub", [one, "mask"], "unmasked"), far], "hidden")
    node("Unsqueeze", [hidden, axes], "shade")
    for i in range(LAYERS):
        x = normal(node("Add", [x, attention(x, f"{i}.attention")], f"{i}.sum"), f"{i}.norm")
        wide = gelu(linear(x, f"{i}.wide", WIDTH, 4 * WIDTH), f"{i}.gelu")
        narrow = linear(wide, f"{i}.narrow", 4 * WIDTH, WIDTH)
        x = normal(node("Add", [x, narrow], f"{i}.sum2"), f"{i}.norm2")
    spans = linear(x, "spans", WIDTH, 2)
    nodes.append(helper.make_node("Split", [spans], ["begin", "end"], axis=2, num_outputs=2))
    inputs = [
        helper.make_tensor_value_info("tokens", TensorProto.INT64, (BATCH, LENGTH)),
        helper.make_tensor_value_info("side", TensorProto.INT64, (BATCH, LENGTH)),
        helper.make_tensor_value_info("mask", TensorProto.FLOAT, (BATCH, LENGTH)),
    ]
    shape = (BATCH, LENGTH, 1)
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("begin", "end")]
    graph = helper.make_graph(nodes, "answers", inputs, outputs, weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.checker.check_model(made)
    return made.SerializeToString()


def session(bytes_of_model, provider):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    made = onnxruntime.InferenceSession(bytes_of_model, options, providers=[provider])
    # It goes on with the CPU, and says nothing, where a provider cannot start.
    assert made.get_providers()[0] == (provider if isinstance(provider, str) else provider[0])
    return made


def question():
    lengths = (LENGTH, LENGTH - 7)
    tokens = rng.integers(0, WORDS, (BATCH, LENGTH))
    side = np.tile(np.arange(LENGTH) >= 8, (BATCH, 1)).astype(np.int64)
    mask = np.array([np.arange(LENGTH) < one for one in lengths], np.float32)
    return {"tokens": tokens, "side": side, "mask": mask}


def answer(begin, end, mask):
    """The best span of at most eight words, as begin and end in each row."""
    found = []
    for b, e, m in zip(begin[..., 0], end[..., 0], mask):
        spans = [(b[i] + e[j], i, j) for i in range(LENGTH) for j in range(i, min(i + 8, LENGTH)) if m[i] and m[j]]
        found.append(max(spans)[1:])
    return np.array(found)


@check
def answers():
    made = model()
    cuda = session(made, ("CUDAExecutionProvider", {"use_tf32": "0"}))
    cpu = session(made, "CPUExecutionProvider")
    for _ in range(3):
        asked = question()
        got, expected = cuda.run(None, asked), cpu.run(None, asked)
        for one, other in zip(got, expected):
            close(one, other, rtol=1e-3, atol=1e-3)
        same(answer(*got, asked["mask"]), answer(*expected, asked["mask"]))


done()
