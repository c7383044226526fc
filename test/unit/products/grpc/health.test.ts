import { describe, expect, it } from 'vitest'
import type { GrpcStatus, GrpcStream } from '../../../../src/base/transport/grpc-stream.ts'
import { GrpcHealth, OpenCalls } from '../../../../src/products/grpc/health.ts'
import { loadCodec } from '../../../../src/streams/geyser/codec.ts'

/** A stream whose client reads nothing. */
class StuckStream implements GrpcStream {
  readonly encoding = null
  readonly header = () => undefined
  unsentBytes = 0
  status: GrpcStatus | null = null

  write(frames: Buffer): boolean {
    this.unsentBytes += frames.length
    return false
  }

  end(status: GrpcStatus): void {
    this.status ??= status
  }
}

describe('a watcher that reads nothing', () => {
  it('is ended when more than 64 KiB wait for it', () => {
    let isUp = true
    const health = new GrpcHealth(loadCodec(), () => isUp)
    const watch = health.methods<null>().find(({ path }) => path.endsWith('/Watch'))!
    if (watch.kind !== 'stream') throw new Error('Watch is a stream')
    const stream = new StuckStream()
    watch.open(stream, null).message(Buffer.alloc(0))
    let changes = 0
    for (; stream.status === null && changes < 20_000; changes++) {
      isUp = !isUp
      health.changed()
    }
    expect(stream.status?.code).toBe(8)
    expect(stream.unsentBytes).toBeGreaterThan(64 * 1024)
    expect(stream.unsentBytes).toBeLessThan(64 * 1024 + 100)
    // It is forgotten: nothing more is written to it.
    const { unsentBytes } = stream
    health.changed()
    expect(stream.unsentBytes).toBe(unsentBytes)
  })
})

describe('open calls', () => {
  it('are counted by IPv4 address and by the /64 of IPv6', () => {
    const calls = new OpenCalls({ callsPerAddressMax: 2, callsMax: 5 })
    expect([calls.enter('10.0.0.1'), calls.enter('::ffff:10.0.0.1')]).toEqual([true, true])
    expect(calls.enter('10.0.0.1')).toBe(false)
    expect([calls.enter('2001:db8::1'), calls.enter('2001:db8::2')]).toEqual([true, true])
    expect(calls.enter('2001:db8::3')).toBe(false)
    expect([calls.enter('10.0.0.2'), calls.enter('10.0.0.3')]).toEqual([true, false])
    calls.leave('10.0.0.1')
    expect([calls.enter('10.0.0.3'), calls.enter('10.0.0.1')]).toEqual([true, false])
  })
})
