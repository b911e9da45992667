"""Continue the pretraining of a model on a text file with Hugging Face's Trainer."""

from dataclasses import dataclass

from datasets import load_dataset
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    HfArgumentParser,
    Trainer,
    TrainingArguments,
)


@dataclass
class Options:
    """What TrainingArguments does not have."""

    model: str = "meta-llama/Llama-3.1-8B"
    text: str = "train.txt"
    seq_len: int = 8192


def main() -> None:
    """Train, from the last checkpoint if there is one."""
    options, training = HfArgumentParser((Options, TrainingArguments)).parse_args_into_dataclasses()
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    tokenizer.pad_token = tokenizer.eos_token
    model = AutoModelForCausalLM.from_pretrained(options.model)
    text = load_dataset("text", data_files=options.text, split="train")
    tokens = text.map(
        lambda rows: tokenizer(rows["text"], truncation=True, max_length=options.seq_len),
        batched=True,
        remove_columns=["text"],
    )
    collator = DataCollatorForLanguageModeling(tokenizer, mlm=False)
    Trainer(model=model, args=training, train_dataset=tokens, data_collator=collator).train()


if __name__ == "__main__":
    main()
