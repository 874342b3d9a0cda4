"""Narrows an API key without a request: derive_key(key, usd="1.50", models=["openai/*"]). The key may be derived itself.

From a shell: python3 derive_key.py KEY '{"usd": "1.50"}'
"""
import base64, hashlib, hmac, json, re, sys, uuid


def derive_key(key: str, **caveats) -> str:
    match = re.fullmatch(r"(.+?)-(rt|dk)-(.+)", key)
    if match is None:
        raise ValueError("this is not an API key of Postern")
    prefix, kind, body = match.groups()
    *parts, secret = body.split(".") if kind == "dk" else _start_of_chain(key)
    block = _encode(json.dumps({"id": str(uuid.uuid4()), **caveats}).encode())
    return f"{prefix}-dk-{'.'.join([*parts, block, _hmac(_decode(secret), block)])}"


def _start_of_chain(key: str) -> list[str]:
    reference = _hmac(key.encode(), "postern-derived-key/reference")[:22]
    secret = _decode(_hmac(key.encode(), "postern-derived-key/secret"))
    return [reference, _hmac(secret, reference)]


def _hmac(key: bytes, text: str) -> str:
    return _encode(hmac.new(key, text.encode(), hashlib.sha256).digest())


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


if __name__ == "__main__":
    print(derive_key(sys.argv[1], **json.loads(sys.argv[2])))
