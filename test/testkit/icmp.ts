// Forged ICMP "port unreachable" packets, by a small Python program with a raw socket.
// Raw sockets need a privilege and Python may be missing: `canForge` is true where it works.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'

const program = `
import socket, struct, sys, time
outer, source_port, port = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
raw.bind((outer, 0))
here = socket.inet_aton('127.0.0.1')
quoted = struct.pack('!BBHHHBBH4s4s', 0x45, 0, 36, 0, 0, 64, 17, 0, here, here)
quoted += struct.pack('!HHHH', source_port, port, 16, 0) + bytes(8)
body = struct.pack('!BBHI', 3, 3, 0, 0) + quoted
total = sum(struct.unpack('!%dH' % (len(body) // 2), body))
total = (total >> 16) + (total & 0xffff)
packet = body[:2] + struct.pack('!H', ~(total + (total >> 16)) & 0xffff) + body[4:]
for round in range(3000):
    if source_port: raw.sendto(packet, ('127.0.0.1', 0))
    print(round, flush=True)
    if not source_port: break
    time.sleep(0.01)
`

export function canForge(): boolean {
  return spawnSync('python3', ['-c', program, '127.0.0.77', '0', '0']).status === 0
}

/** Sends a packet each 10 ms that claims: a datagram from `sourcePort` to `port` was refused. */
export class IcmpForger {
  readonly #child: ChildProcess
  sent = 0

  constructor(about: { outer: string; sourcePort: number; port: number }) {
    const { outer, sourcePort, port } = about
    this.#child = spawn('python3', ['-c', program, outer, String(sourcePort), String(port)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    this.#child.stdout!.on('data', (text: Buffer) => {
      this.sent += text.toString().split('\n').length - 1
    })
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const ended = once(this.#child, 'exit')
    this.#child.kill('SIGKILL')
    await ended
  }
}
