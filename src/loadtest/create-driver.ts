// Picks the driver of a kind of endpoint. Thread: load.
import type { Driver, DriverEvents, DriverTarget } from './driver.ts'
import { HttpDriver } from './http-driver.ts'

export function createDriver(target: DriverTarget, events: DriverEvents): Driver {
  return new HttpDriver(target, events)
}
