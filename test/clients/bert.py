# A model for question answering, shaped as BERT is, for ONNX Runtime; its weights are of a seed.
import dataclasses

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper


@dataclasses.dataclass(frozen=True)
class Shape:
    layers: int
    width: int
    heads: int
    length: int
    words: int
    batch: int


class Bert:
    def __init__(self, shape, seed):
        self.shape = shape
        self.rng = np.random.default_rng(seed)
        self.weights, self.nodes = [], []

    def weight(self, name, *shape, scale=None):
        scale = 1 / np.sqrt(shape[0]) if scale is None else scale
        value = self.rng.standard_normal(shape, np.float32) * np.float32(scale)
        self.weights.append(numpy_helper.from_array(value, name))
        return name

    def constant(self, name, value):
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, kind, inputs, out, **attributes):
        self.nodes.append(helper.make_node(kind, inputs, [out], **attributes))
        return out

    def linear(self, x, name, inputs, outputs):
        product = self.node("MatMul", [x, self.weight(f"{name}.w", inputs, outputs)], f"{name}.product")
        return self.node("Add", [product, self.weight(f"{name}.b", outputs, scale=0.1)], f"{name}.out")

    def normal(self, x, name):
        scale = self.constant(f"{name}.s", np.ones(self.shape.width, np.float32))
        shift = self.weight(f"{name}.t", self.shape.width, scale=0.1)
        return self.node("LayerNormalization", [x, scale, shift], f"{name}.out", axis=-1)

    def heads(self, x, name, order):
        batch, length, heads = self.shape.batch, self.shape.length, self.shape.heads
        sizes = np.array([batch, length, heads, self.shape.width // heads], np.int64)
        apart = self.node("Reshape", [x, self.constant(f"{name}.shape", sizes)], f"{name}.apart")
        return self.node("Transpose", [apart], f"{name}.heads", perm=order)

    def attention(self, x, name):
        width = self.shape.width
        parts = (self.linear(x, f"{name}.{one}", width, width) for one in "qkv")
        orders = ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3))
        q, k, v = (self.heads(part, f"{name}.{one}", order) for part, one, order in zip(parts, "qkv", orders))
        scores = self.node("MatMul", [q, k], f"{name}.scores")
        root = self.constant(f"{name}.root", np.float32(np.sqrt(width // self.shape.heads)))
        scaled = self.node("Div", [scores, root], f"{name}.scaled")
        share = self.node("Softmax", [self.node("Add", [scaled, "shade"], f"{name}.shaded")], f"{name}.share", axis=-1)
        mixed = self.node("MatMul", [share, v], f"{name}.mixed")
        back = self.node("Transpose", [mixed], f"{name}.back", perm=(0, 2, 1, 3))
        whole = self.constant(f"{name}.whole", np.array([self.shape.batch, self.shape.length, width], np.int64))
        return self.linear(self.node("Reshape", [back, whole], f"{name}.joined"), f"{name}.o", width, width)

    def gelu(self, x, name):
        numbers = (("r", 2**0.5), ("1", 1), ("h", 0.5))
        root, one, half = (self.constant(f"{name}.{n}", np.float32(v)) for n, v in numbers)
        erf = self.node("Erf", [self.node("Div", [x, root], f"{name}.d")], f"{name}.erf")
        product = self.node("Mul", [x, self.node("Add", [erf, one], f"{name}.a")], f"{name}.m")
        return self.node("Mul", [product, half], f"{name}.out")

    def embedding(self):
        shape = self.shape
        words = self.node("Gather", [self.weight("words", shape.words, shape.width, scale=1), "tokens"], "embedded")
        places = self.weight("places", shape.length, shape.width, scale=0.5)
        sides = self.node("Gather", [self.weight("sides", 2, shape.width, scale=0.5), "side"], "sided")
        return self.node("Add", [self.node("Add", [words, places], "placed"), sides], "sum")

    def shade(self):
        """What is padding is seen by nobody."""
        far = self.constant("far", np.float32(-1e4))
        one = self.constant("one", np.float32(1))
        hidden = self.node("Mul", [self.node("Sub", [one, "mask"], "unmasked"), far], "hidden")
        self.node("Unsqueeze", [hidden, self.constant("axes", np.array([1, 2], np.int64))], "shade")

    def serialized(self):
        width = self.shape.width
        x = self.normal(self.embedding(), "first")
        self.shade()
        for i in range(self.shape.layers):
            x = self.normal(self.node("Add", [x, self.attention(x, f"{i}.attention")], f"{i}.sum"), f"{i}.norm")
            wide = self.gelu(self.linear(x, f"{i}.wide", width, 4 * width), f"{i}.gelu")
            narrow = self.linear(wide, f"{i}.narrow", 4 * width, width)
            x = self.normal(self.node("Add", [x, narrow], f"{i}.sum2"), f"{i}.norm2")
        spans = self.linear(x, "spans", width, 2)
        self.nodes.append(helper.make_node("Split", [spans], ["begin", "end"], axis=2, num_outputs=2))
        asked = (self.shape.batch, self.shape.length)
        inputs = [
            helper.make_tensor_value_info("tokens", TensorProto.INT64, asked),
            helper.make_tensor_value_info("side", TensorProto.INT64, asked),
            helper.make_tensor_value_info("mask", TensorProto.FLOAT, asked),
        ]
        outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (*asked, 1)) for name in ("begin", "end")]
        graph = helper.make_graph(self.nodes, "answers", inputs, outputs, self.weights)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
        onnx.checker.check_model(made)
        return made.SerializeToString()

    def question(self):
        """Some words of which each row but the first one has fewer."""
        batch, length = self.shape.batch, self.shape.length
        lengths = [length] + [length - 7] * (batch - 1)
        tokens = self.rng.integers(0, self.shape.words, (batch, length))
        side = np.tile(np.arange(length) >= 8, (batch, 1)).astype(np.int64)
        mask = np.array([np.arange(length) < one for one in lengths], np.float32)
        return {"tokens": tokens, "side": side, "mask": mask}


def session(bytes_of_model, provider, **settings):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    for name, value in settings.items():
        setattr(options, name, value)
    made = onnxruntime.InferenceSession(bytes_of_model, options, providers=[provider])
    # It goes on with the CPU, and says nothing, where a provider cannot start.
    assert made.get_providers()[0] == (provider if isinstance(provider, str) else provider[0])
    return made
