"""From text files to fairseq's memory-mapped datasets: which parts, their ids, and putting these together."""
