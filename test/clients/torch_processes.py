# PyTorch's tensors in several processes: memory on the device that another process reads and writes.
import numpy as np
import torch
import torch.multiprocessing as multiprocessing
from checks import check, done, same


def other_process(tensors, answers):
    tensor = tensors.get()
    answers.put(tensor.cpu().numpy().copy())
    tensor[10:20].zero_()
    torch.cuda.synchronize()
    answers.put("written")
    del tensor
    tensors.get()  # until it may end


if __name__ == "__main__":

    @check
    def memory_of_another_process():
        context = multiprocessing.get_context("spawn")
        tensors, answers = context.Queue(), context.Queue()
        process = context.Process(target=other_process, args=(tensors, answers))
        process.start()
        expected = np.arange(1000, dtype=np.float64)
        tensor = torch.from_numpy(expected).cuda()
        tensors.put(tensor)
        same(answers.get(timeout=120), expected)
        assert answers.get(timeout=120) == "written"
        expected[10:20] = 0
        same(tensor.cpu().numpy(), expected)
        tensors.put("end")
        process.join(60)
        assert process.exitcode == 0

    done()
