// Picks the driver of a kind of endpoint. Thread: load.
import { ConnectionDriver } from './connection-driver.ts'
import type { Driver, DriverEvents, DriverTarget } from './driver.ts'
import { GrpcDriver } from './grpc-driver.ts'
import { httpProtocol } from './http-session.ts'
import { socketProtocol } from './socket-session.ts'

export function createDriver(target: DriverTarget, events: DriverEvents): Driver {
  if (target.kind === 'grpc') return new GrpcDriver(target, events)
  const protocol = target.kind === 'websocket' ? socketProtocol : httpProtocol
  return new ConnectionDriver(target, events, protocol)
}
