"""From what people have to a verdict: recognition, choice of a model, exports, gates, logs that still grow.

The auditor of broadcasts is in `antecast.history`, the other models in `antecast.models` and `antecast.kv`. What
they say goes through here to the command line and to Python in one form.
"""
