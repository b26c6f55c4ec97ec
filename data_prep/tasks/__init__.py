"""The paper's four finetuning tasks and your own: converts their files to data for fairseq's sentence_prediction."""
