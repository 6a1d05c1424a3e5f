"""`bbq completion`: the script that lets a shell complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from bbq_plugin.cli.main import Command


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that makes a SHELL complete.

    \b
    bash:  bbq completion bash > ~/.local/share/bash-completion/completions/bbq
    zsh:   bbq completion zsh > ~/.zfunc/_bbq     (a folder of $fpath)
    fish:  bbq completion fish > ~/.config/fish/completions/bbq.fish
    """
    kind = get_completion_class(shell)
    if kind is None:  # every shell above is known to click
        raise click.UsageError(f"no completion for {shell}")
    script = kind(ctx.find_root().command, {}, "bbq", "_BBQ_COMPLETE")
    # Not .source(): that one starts the shell to ask for its version.
    click.echo(script.source_template % script.source_vars())
