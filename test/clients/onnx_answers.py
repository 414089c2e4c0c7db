# Question answering shaped as BERT is, small: ONNX Runtime's CUDA provider beside its CPU provider, on the same model.
import numpy as np
from bert import Bert, Shape, session
from checks import check, close, done, same

LENGTH = 24


def answer(begin, end, mask):
    """The best span of at most eight words, as begin and end in each row."""
    found = []
    for b, e, m in zip(begin[..., 0], end[..., 0], mask):
        spans = [(b[i] + e[j], i, j) for i in range(LENGTH) for j in range(i, min(i + 8, LENGTH)) if m[i] and m[j]]
        found.append(max(spans)[1:])
    return np.array(found)


@check
def answers():
    bert = Bert(Shape(layers=2, width=64, heads=4, length=LENGTH, words=120, batch=2), seed=31)
    made = bert.serialized()
    cuda = session(made, ("CUDAExecutionProvider", {"use_tf32": "0"}))
    cpu = session(made, "CPUExecutionProvider")
    for _ in range(3):
        asked = bert.question()
        got, expected = cuda.run(None, asked), cpu.run(None, asked)
        for one, other in zip(got, expected):
            close(one, other, rtol=1e-3, atol=1e-3)
        same(answer(*got, asked["mask"]), answer(*expected, asked["mask"]))


done()
