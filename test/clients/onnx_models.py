# ONNX Runtime's CUDA provider beside its CPU provider: kernels of its own, cuDNN and cuBLAS.
import numpy as np
import onnx
import onnxruntime
from checks import check, done, keep
from onnx import TensorProto, helper

rng = np.random.default_rng(23)


def session(model, provider):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    made = onnxruntime.InferenceSession(model, options, providers=[provider])
    # It goes on with the CPU, and says nothing, where a provider cannot start.
    assert made.get_providers()[0] == (provider if isinstance(provider, str) else provider[0])
    return made


def compare(nodes, inputs, rtol, atol=1e-5, constants=None):
    constants = constants or {}
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in inputs.items()],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(a, n) for n, a in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    model = model.SerializeToString()
    # Products of f32 exact, as on the CPU.
    cuda = session(model, ("CUDAExecutionProvider", {"use_tf32": "0"}))
    (got,) = cuda.run(None, inputs)
    (expected,) = session(model, "CPUExecutionProvider").run(None, inputs)
    keep(got)
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=atol)


def values(*shape):
    return rng.standard_normal(shape).astype(np.float32)


@check
def elementwise():
    nodes = [
        helper.make_node("Add", ["a", "b"], ["sum"]),
        helper.make_node("Relu", ["sum"], ["positive"]),
        helper.make_node("Mul", ["positive", "a"], ["product"]),
        helper.make_node("Tanh", ["product"], ["out"]),
    ]
    compare(nodes, {"a": values(33, 65), "b": values(65)}, 1e-5)


@check
def matrix_products():
    nodes = [
        helper.make_node("MatMul", ["a", "b"], ["product"]),
        helper.make_node("Gemm", ["product", "c", "d"], ["out"]),
    ]
    inputs = {"a": values(33, 65), "b": values(65, 48), "c": values(48, 20), "d": values(20)}
    compare(nodes, inputs, 1e-4, 1e-4)


@check
def reductions_and_softmax():
    nodes = [
        helper.make_node("Softmax", ["a"], ["soft"], axis=-1),
        helper.make_node("ReduceMean", ["soft"], ["mean"], axes=[1], keepdims=1),
        helper.make_node("Sub", ["soft", "mean"], ["centred"]),
        helper.make_node("ReduceMax", ["centred"], ["out"], axes=[0], keepdims=0),
    ]
    compare(nodes, {"a": values(20, 37)}, 1e-4)


@check
def convolution():
    nodes = [
        helper.make_node("Conv", ["a", "w", "b"], ["conv"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["conv", "s", "b", "m", "v"], ["normal"]),
        helper.make_node("Relu", ["normal"], ["positive"]),
        helper.make_node("MaxPool", ["positive"], ["out"], kernel_shape=[2, 2], strides=[2, 2]),
    ]
    constants = {"w": values(8, 3, 3, 3), "b": values(8), "s": values(8), "m": values(8)}
    constants["v"] = np.abs(values(8)) + 0.5
    compare(nodes, {"a": values(2, 3, 16, 16)}, 1e-3, 1e-3, constants)


@check
def layer_normalisation():
    node = helper.make_node("LayerNormalization", ["a", "s", "b"], ["out"], axis=-1)
    compare([node], {"a": values(10, 64)}, 1e-4, 1e-4, {"s": values(64), "b": values(64)})


@check
def attention():
    scale = {"scale": np.array(8.0, np.float32)}
    nodes = [
        helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["q", "kt"], ["scores"]),
        helper.make_node("Div", ["scores", "scale"], ["scaled"]),
        helper.make_node("Softmax", ["scaled"], ["weights"], axis=-1),
        helper.make_node("MatMul", ["weights", "v"], ["out"]),
    ]
    shape = (4, 16, 64)
    compare(nodes, {n: values(*shape) for n in "qkv"}, 1e-4, 1e-4, scale)


done()
