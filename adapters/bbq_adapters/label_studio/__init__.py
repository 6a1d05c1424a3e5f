"""Label Studio: exports, events and projects on a server.

Reading: `exports` brings every kind of export to one shape, `question` finds the control that
compares, `names` the items' names, `answers` makes comparisons of annotations; `adapter` reads
files by these, `task_pages` a server's pages, `webhooks` what a server sends (events, requests to
an ML backend). `feedback` plans what to write, `remote` is a project on a server, read, written and
undone, `client` the line to it, and `keys` alone knows the form of the keys.
docs/label-studio-exports.md states how every answer is treated.
"""

from bbq_adapters.label_studio.answers import LabelStudioAdapter

__all__ = ["LabelStudioAdapter"]
