"""How does one find out: experiments, comparisons, tasks, findings?"""
