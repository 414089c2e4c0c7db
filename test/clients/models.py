# ResNet-50 and GPT-2 (124 million parameters), by their published shapes, for torch_host_side.py.
import torch
from torch import nn
from torch.nn import functional as F


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = width * 4
        self.narrow = nn.Conv2d(inputs, width, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.middle = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.widen = nn.Conv2d(width, outputs, 1, bias=False)
        self.norm3 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.around = None
        if stride != 1 or inputs != outputs:
            self.around = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x):
        out = self.relu(self.norm1(self.narrow(x)))
        out = self.relu(self.norm2(self.middle(out)))
        out = self.norm3(self.widen(out))
        return self.relu(out + (x if self.around is None else self.around(x)))


class ResNet50(nn.Module):
    def __init__(self):
        super().__init__()
        layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)]
        layers += [nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
        inputs = 64
        for i, blocks in enumerate((3, 4, 6, 3)):
            for block in range(blocks):
                layers.append(Bottleneck(inputs, 64 << i, 2 if i > 0 and block == 0 else 1))
                inputs = (64 << i) * 4
        self.body = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(2048, 1000)

    def forward(self, x):
        return self.head(self.body(x))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.attention = nn.Linear(width, width * 3)
        self.project = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.wide = nn.Linear(width, width * 4)
        self.narrow = nn.Linear(width * 4, width)

    def forward(self, x, known):
        """`known`: keys and values of the tokens before, to which those of x are added; or None."""
        batch, length, width = x.shape
        parts = self.attention(self.norm1(x)).split(width, dim=2)
        q, k, v = (one.view(batch, length, self.heads, -1).transpose(1, 2) for one in parts)
        causal = True
        if known is not None:
            causal = not known
            if known:
                k, v = (torch.cat(pair, dim=2) for pair in zip(known, (k, v)))
            known[:] = k, v
        out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        x = x + self.project(out.transpose(1, 2).reshape(batch, length, width))
        return x + self.narrow(F.gelu(self.wide(self.norm2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, layers=12, width=768, heads=12, words=50257, longest=1024):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Embedding(longest, width)
        self.dropout = nn.Dropout(0.1)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight

    def forward(self, tokens, begin=0, known=None):
        """`known`: a list for each block, empty before the first tokens; `begin`: how many came before."""
        places = torch.arange(begin, begin + tokens.shape[1], device=tokens.device)
        x = self.dropout(self.words(tokens) + self.places(places))
        for i, block in enumerate(self.blocks):
            x = block(x, None if known is None else known[i])
        return self.head(self.norm(x))
