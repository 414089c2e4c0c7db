"""A small language model of Transformers', with weights made here: it is trained for a few steps, and writes."""

from _day import Done, need

(torch, transformers) = need("torch", "transformers")

torch.manual_seed(1)
config = transformers.GPT2Config(vocab_size=1000, n_positions=256, n_embd=256, n_layer=4, n_head=4)
model = transformers.GPT2LMHeadModel(config).eval()
tokens = torch.randint(0, 1000, (4, 64), generator=torch.Generator().manual_seed(2))
with Done("transformers: to the device") as it:
    model = model.cuda()
    tokens = tokens.cuda()
    torch.cuda.synchronize()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)


def step():
    loss = model(tokens, labels=tokens).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss


with Done("transformers: first step of training") as it:
    it.result = float(step().item())
with Done("transformers: 20 steps of training") as it:
    for _ in range(20):
        loss = step()
    it.result = float(loss.item())
with Done("transformers: 32 tokens") as it:
    with torch.no_grad():
        out = model.generate(tokens[:1, :8], max_new_tokens=32, do_sample=False, pad_token_id=0)
    it.result = float(out.sum().item())
