"""Label Studio: exports, events and projects on a server.

Reading: `answers` brings every kind of export to one shape and makes comparisons of annotations,
`comparison_control` finds the control that compares and the items' names, `webhook_events` reads
what a server sends. `ml_backend` answers what it asks of a model. `push_plan` plans what to write,
`server_project` is a project on a server, read, written and undone, and `store_keys` alone knows
the form of the keys.
docs/label-studio-exports.md states how every answer is treated.
"""

from bbq_adapters.label_studio.answers import LabelStudioAdapter

__all__ = ["LabelStudioAdapter"]
