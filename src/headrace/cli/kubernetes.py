"""`headrace kubernetes`: what a cluster is given."""

from __future__ import annotations

from typing import Annotated

import typer
import yaml

app = typer.Typer()


@app.callback()
def _group() -> None:
    """Kubernetes."""


@app.command()
def crds(
    beside_core: Annotated[
        bool, typer.Option("--beside-core", help="Without the kinds that Knative's core brings itself.")
    ] = False,
) -> None:
    """Print the CustomResourceDefinitions, for `kubectl apply -f -`."""
    from headrace.kube.crds import crds as definitions

    typer.echo(yaml.safe_dump_all(definitions(beside_core=beside_core), sort_keys=False, width=120), nl=False)
