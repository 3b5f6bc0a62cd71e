"""A local cluster on disk.

FOLDER/lock               held while a command changes the cluster
FOLDER/cluster.json       its layout; readable by its owner only (passwords)
FOLDER/auth/              ca.crt, broker.pem, and for each user a v1 Secret manifest and the properties for Kafka's own tools
FOLDER/node-N/            server.properties, kafka.log (what it logs), kafka.out (what its JVM prints), pid, log/ (its storage)
"""

from __future__ import annotations

import shutil
from pathlib import Path

import yaml

from headrace.base.files import write_atomically
from headrace.kafka.authfile import load_auth
from headrace.kafka.cluster.certificates import Authority
from headrace.kafka.cluster.layout import Layout, NodeLayout, Security, User
from headrace.kafka.cluster.process import running_pid
from headrace.kafka.folder import FolderLock
from headrace.kafka.node import render_properties
from headrace.kafka.settings import KafkaSettings

_PRIVATE = 0o600


class ClusterFolder:
    """Where one local cluster is kept. Nothing is made before `create`."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    def lock(self) -> FolderLock:
        """Keeps other commands from changing the cluster at the same time."""
        self.path.mkdir(parents=True, exist_ok=True)
        return FolderLock(self.path)

    def layout(self) -> Layout | None:
        """The cluster that is kept here, None when there is none."""
        try:
            return Layout.decode((self.path / "cluster.json").read_text())
        except FileNotFoundError:
            return None

    def create(self, layout: Layout) -> None:
        """Keep `layout`, with the certificates and credentials that it needs."""
        if layout.security is not Security.PLAINTEXT:
            self._write_credentials(layout)
        self._properties(layout, User.ADMIN)
        write_atomically(self.path / "cluster.json", layout.encode().encode(), _PRIVATE)

    def delete(self) -> None:
        """Remove everything; the processes must have ended."""
        for inside in self.path.iterdir():
            if inside.is_dir():
                shutil.rmtree(inside)
            elif inside.name != "lock":
                inside.unlink()

    def settings(self, layout: Layout, user: User = User.ADMIN) -> KafkaSettings:
        """How `user` reaches the cluster from this machine."""
        if layout.security is Security.PLAINTEXT:
            return KafkaSettings(layout.bootstrap)
        return KafkaSettings(layout.bootstrap, load_auth(self.auth_file(user)))

    def running_settings(self) -> KafkaSettings | None:
        """The same for the cluster that is kept here, if one of its brokers runs."""
        layout = self.layout()
        if layout is None or not any(running_pid(self.node(node)) for node in layout.brokers):
            return None
        return self.settings(layout)

    def auth_file(self, user: User) -> Path:
        """The Secret manifest of a user, for `--kafka-auth`."""
        return self.path / "auth" / f"{user}.yaml"

    def properties_file(self, user: User) -> Path:
        """The same for the `--command-config` of Kafka's own tools."""
        return self.path / "auth" / f"{user}.properties"

    @property
    def authority(self) -> Path:
        return self.path / "auth" / "ca.crt"

    @property
    def broker_pem(self) -> Path:
        """Key and certificate of the brokers, as Kafka reads them."""
        return self.path / "auth" / "broker.pem"

    def node(self, node: NodeLayout) -> Path:
        """The folder of a node."""
        return self.path / f"node-{node.id}"

    def _write_credentials(self, layout: Layout) -> None:
        authority = Authority("Headrace local cluster")
        broker = authority.broker()
        write_atomically(self.authority, authority.certificate.encode())
        write_atomically(self.broker_pem, f"{broker.key}{broker.certificate}".encode(), _PRIVATE)
        for user in User:
            pair = authority.user(user)
            auth = layout.auth(user, authority.certificate, pair.certificate, pair.key)
            data = {
                "protocol": auth.protocol.value,
                "sasl.mechanism": auth.mechanism.value if auth.mechanism else "",
                "user": auth.user,
                "password": auth.password,
                "ca.crt": auth.ca_crt,
                "user.crt": auth.user_crt,
                "user.key": auth.user_key,
            }
            manifest = {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": f"kafka-{user}"},
                "stringData": {key: value for key, value in data.items() if value},
            }
            write_atomically(self.auth_file(user), yaml.safe_dump(manifest, sort_keys=False).encode(), _PRIVATE)
            self._properties(layout, user)

    def _properties(self, layout: Layout, user: User) -> None:
        properties = self.settings(layout, user).java()
        write_atomically(self.properties_file(user), render_properties(properties).encode(), _PRIVATE)
