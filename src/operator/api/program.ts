// The child's side of the operator API: opened and closed by the server over the pipe.
// Thread: main of its own process.
import { resolve } from 'node:path'
import { systemClock } from '../../base/clock.ts'
import type { EndpointAddress, Running } from '../../base/running.ts'
import { openLog } from '../../base/telemetry/open-log.ts'
import { CertificatePair } from '../../base/transport/tls.ts'
import { openStore } from '../../customers/subscriptions/store.ts'
import { registryPath } from '../commands/registry.ts'
import type { Config } from '../config/config.ts'
import { knownOf } from '../config/known.ts'
import { userName } from '../config/load.ts'
import { Access } from './access.ts'
import { Repeats } from './repeats.ts'
import { startApi } from './server.ts'

export interface ApiRequest {
  readonly config: Config
  readonly version: string
}

let running: Running | null = null

export async function openApi({ config, version }: ApiRequest): Promise<EndpointAddress | null> {
  const log = openLog(config.logLevel).area('operator')
  const { tls, operator } = config
  // Open as long as the process lives: a verb that opens the registry then does not lock it.
  const store = openStore(registryPath(config), { clock: systemClock, known: knownOf(config) })
  const files = { certPath: resolve(tls.cert), keyPath: resolve(tls.key) }
  const hosts = [operator.host, `[${operator.host}]`, ...operator.names]
  running = await startApi(resolve(config.data), {
    config,
    access: new Access(store, {
      clock: systemClock,
      user: userName(),
      hosts: hosts.map((host) => host.toLowerCase()),
    }),
    repeats: new Repeats(store.answers),
    certificates: tls.cert !== '' && operator.enabled ? new CertificatePair(files, log) : null,
    version,
    log,
  })
  return running.address
}

export async function closeApi(): Promise<void> {
  await running?.stop()
}
