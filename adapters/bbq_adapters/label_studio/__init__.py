"""Label Studio: exports, events and projects on a server.

Reading: `exports` brings every kind of export to one shape, `question` finds the control that
compares, `names` the items' names, `answers` makes comparisons of annotations; `adapter` reads
files by these, `webhooks` events, `task_pages` a server's pages. Writing: `feedback` plans, `write`
applies and undoes. `remote` is a project on a server, `client` the line to it, `ml_backend` the
protocol of a model in the project's settings, and `keys` alone knows the form of the keys.
docs/label-studio-exports.md states how every answer is treated.
"""

from bbq_adapters.label_studio.adapter import LabelStudioAdapter

__all__ = ["LabelStudioAdapter"]
