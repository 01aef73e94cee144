"""The quickest settings of a model within its error budget, op by op, with a certificate that another can check.

`search` is the way from a model to a certificate: `space` says what can be decided and what it costs in time, `errors`
measures what it costs in error, `solve` finds the best combination and proves a bound, `greedy` is where it starts.
"""
