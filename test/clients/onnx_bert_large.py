# What an inference of BERT-large costs through ONNX Runtime, on a device whose machine code does nothing
# (SOFTWARE_DEVICE_TRAITS=empty-cubins): what is computed makes no sense and is not looked at. Remoted, the costs go to the
# file that STEP_COSTS names.
import dataclasses
import json
import os
import tempfile

import onnx
from bert import Bert, Shape, session
from checks import check, done
from counters import Counters

SHAPE = Shape(layers=24, width=1024, heads=16, length=384, words=30522, batch=1)
CUDA = ("CUDAExecutionProvider", {"use_tf32": "0"})
counters = Counters.of_this_process()


def nodes():
    """Of the graph as ONNX Runtime has optimised it, which does not depend on how wide it is."""
    narrow = Bert(dataclasses.replace(SHAPE, width=64, words=120), seed=31)
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "optimised.onnx")
        session(narrow.serialized(), CUDA, optimized_model_filepath=file)
        return len(onnx.load(file).graph.node)


@check
def an_inference():
    bert = Bert(SHAPE, seed=31)
    cuda, asked = session(bert.serialized(), CUDA), bert.question()
    for _ in range(3):
        cuda.run(None, asked)
    if not counters or "STEP_COSTS" not in os.environ:
        return
    before = counters.read()
    cuda.run(None, asked)
    cost = counters.since(before)
    totals, _ = counters.read()
    assert totals["unsupported"] == 0, f"{totals['unsupported']} calls were not served"
    with open(os.environ["STEP_COSTS"], "w") as file:
        json.dump({"BERT-large, 384 words": {"nodes": nodes(), **cost}}, file)


done()
