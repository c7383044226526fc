import { afterEach, describe, expect, it, vi } from 'vitest'
import { silentLog } from '../../../../src/base/telemetry/log.ts'
import { GrpcConnections } from '../../../../src/base/transport/grpc-connections.ts'
import { probeGrpcLibrary } from '../../../../src/base/transport/grpc-probe.ts'

afterEach(() => vi.restoreAllMocks())

describe('the probe of the gRPC library', () => {
  it('passes with the version that is installed', async () => {
    await probeGrpcLibrary(silentLog)
  })

  it('fails the start when repeated headers are not detected', async () => {
    vi.spyOn(GrpcConnections.prototype, 'hasRepeated').mockReturnValue(false)
    await expect(probeGrpcLibrary(silentLog)).rejects.toThrow('hides raw headers')
  })

  it('fails the start when the HTTP/2 servers are not accessible', () => {
    const connections = new GrpcConnections({
      connectionsPerAddressMax: 1,
      isProxy: () => false,
      compression: [],
      log: silentLog,
    })
    expect(() => connections.watch({})).toThrow('not accessible')
    expect(() => connections.watch({ http2Servers: new Map() })).toThrow('not accessible')
  })
})
