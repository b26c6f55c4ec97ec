"""The four finetuning tasks of the paper, from their official files to what fairseq's sentence_prediction reads."""
