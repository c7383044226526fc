# Follows blocks on the metrics stream, with Python's standard library alone.
#   python3 examples/metrics.py [blocks]
import base64, json, os, socket, struct, sys
from urllib.parse import urlsplit

url = urlsplit(os.environ.get("METRICS_URL", "http://127.0.0.1:8443"))
count = int(sys.argv[1]) if len(sys.argv) > 1 else 0
sock = socket.create_connection((url.hostname, url.port))
stream = sock.makefile("rb")
key = base64.b64encode(os.urandom(16)).decode()
sock.sendall(
    f"GET /v1/ws?events=TPS,ContentionData HTTP/1.1\r\nHost: {url.netloc}\r\nUpgrade: websocket\r\n"
    f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
)
status = stream.readline().decode()
assert " 101 " in status, status
while stream.readline() != b"\r\n":
    pass

tps = seen = 0
while not count or seen < count:
    # A frame of the server: kind, length (7 bits, or 16, or 64), payload.
    kind, length = stream.read(2)
    if length > 125:
        length = struct.unpack(">H" if length == 126 else ">Q", stream.read(2 if length == 126 else 8))[0]
    payload = stream.read(length)
    if kind & 15 == 9:  # a ping: its pong is masked, here with zeros
        sock.sendall(bytes([0x8A, 0x80 | length]) + bytes(4) + payload)
    if kind & 15 == 8:
        sys.exit(f"closed with {int.from_bytes(payload[:2], 'big')}")
    if kind & 15 != 1:
        continue
    frame = json.loads(payload)
    tps = frame.get("TPS", tps)
    if block := frame.get("ContentionData"):
        seen += 1
        efficiency = f"{block['parallel_efficiency_pct']:.2f} %" if block["total_txn_count"] else "empty"
        print(f"block {block['block_number']}: {tps} TPS, {efficiency}", flush=True)
