// `sluice serve`: starts the service and runs until a signal.
// The topology is imported on demand, so that no other verb pays for loading the products.
//
//   config ─► topology ─► first start: `demo` ─► banner ─► … ─► signal ─► stop ─► exit code
import { unwatchFile, watchFile } from 'node:fs'
import { resolve } from 'node:path'
import { systemClock } from '../../base/clock.ts'
import { accept, guarded, messageOf, refuse } from '../../base/errors.ts'
import { exitNow, exitStopped } from '../../base/exit.ts'
import { faultReport, type Log } from '../../base/telemetry/log.ts'
import { openLog } from '../../base/telemetry/open-log.ts'
import { killProcesses } from '../../base/threads/running.ts'
import {
  type Config,
  configFields,
  enabledEndpoints,
  ownConfig,
  setsWithoutGeyser,
} from '../config/config.ts'
import { configFileOf, type LoadRequest, loadConfig } from '../config/load.ts'
import { banner, demoLabel, firstStart } from './banner.ts'
import { privateCertificate } from './machine-checks.ts'
import { ProgressBar } from './output.ts'
import { EXIT, hasSwitch, refusedFault, type Verb } from './verb.ts'
import { packageVersion } from './version.ts'

/** Longest wait for the embedded chain before the banner: every printed call works then. */
const readyMsMax = 30_000
/** Timeout of a graceful stop; a second signal exits at once. */
const stopMsMax = 15_000

export const serveVerb: Verb = {
  words: ['serve'],
  summary: 'Start the service; the same as npm start.',
  examples: ['serve --data /var/lib/sluice', 'serve --config sluice.yaml --rpc.port 9899'],
  takesConfig: true,
  flags: [
    { name: 'fresh', doc: "Delete the embedded chain's state first, and nothing else." },
    {
      name: 'gateways',
      value: 'count',
      sets: 'cluster.gateways',
      doc: 'Gateway processes on the same ports; short for --cluster.gateways.',
    },
  ],
  async run(call) {
    const { config } = call.loaded
    const log = openLog(config.logLevel)
    const ending = endingOf(log)
    let isUp = false
    ending.code.then((code) => (isUp ? boundStop(log, null) : abandon(code, log)))
    const problem = await portProblem(config)
    if (problem !== null) return refuse('unavailable', 'port-taken', problem)
    log.info('starting', { version: packageVersion(), data: config.data })
    const { startTopology, surviveFaults } = await import('../topology/service.ts')
    const endSurviving = surviveFaults(log)
    const started = startTopology(config, {
      clock: systemClock,
      log,
      version: packageVersion(),
      isFresh: hasSwitch(call, 'fresh'),
      exit: ending.end,
      ...(process.stderr.isTTY ? { playing: new ProgressBar() } : {}),
    })
    try {
      const service = await started
      // Real nodes may be away for hours, and the banner says where they are looked for.
      if (config.chain.source === 'embedded') await service.whenReady(readyMsMax)
      isUp = true
      const demo = await firstStart(config, service)
      const hasDemo = demo === null && service.store.find(demoLabel)?.state === 'active'
      const data = config.data === configFields.data.initial ? null : config.data
      const warnings = setsWithoutGeyser(config)
      const { page, auth } = config.metrics
      const pages = { hasPage: page !== 'off', isMetricsClosed: auth === 'token' }
      const ca = privateCertificate(config.tls.cert)
      process.stdout.write(banner(service, { demo, hasDemo, data, ...pages, ca, warnings }))
      service.announce()
      const unwatch = watchConfig(call.request, log, (changed) => service.reconfigure(changed))
      const code = await ending.code
      unwatch()
      await service.stop()
      endSurviving()
      log.info('stopped', { code })
      // A leaked handle must not keep the stopped process alive.
      setImmediate(() => exitStopped(code))
      return accept({ json: { code }, text: '' })
    } catch (error) {
      // A failed start keeps nothing open: its listeners would keep the process alive.
      boundStop(log, messageOf(error))
      await started.then((service) => service.stop()).catch(() => {})
      setImmediate(() => exitStopped(EXIT.refused))
      return refusedFault(error)
    }
  },
}

/** Every port that cannot be used, before anything starts: nothing of such a start remains. */
async function portProblem(config: Config): Promise<string | null> {
  // Other gateways use shared ports, too; those of a hub's gateways are not opened by the hub.
  if (config.cluster.sharePorts) return null
  const { checkPort } = await import('./doctor.ts')
  const ports = enabledEndpoints(ownConfig(config)).map((endpoint) => checkPort(endpoint, null))
  const failed = (await Promise.all(ports)).filter(({ state }) => state === 'fail')
  const lines = failed.map(({ name, found, next }) => `${name}: ${found}; ${next}`)
  if (lines.length === 0) return null
  // A server on the same folder has them: the lock says so, and by which process.
  const { lockHolder } = await import('../../customers/subscriptions/lock.ts')
  if ((await lockHolder(resolve(config.data))) !== null) return null
  return lines.length === 1
    ? lines[0]!
    : [`${lines.length} ports cannot be used`, ...lines].join('\n  ')
}

/** Ends a start at a signal: no endpoint was announced, and what is stored survives. */
function abandon(code: number, log: Log): void {
  log.info('stopped during the start', { code })
  killProcesses()
  exitNow(code)
}

function boundStop(log: Log, startFailed: string | null): void {
  setTimeout(() => {
    log.error('stop timed out', startFailed === null ? {} : { startFailed })
    exitNow(1)
  }, stopMsMax).unref()
}

/** Resolves with the exit code at the first signal; the second one exits the process at once. */
function endingOf(log: Log): { code: Promise<number>; end(code: number): void } {
  let end: (code: number) => void = () => {}
  const code = new Promise<number>((resolve) => {
    end = resolve
  })
  let isEnding = false
  const onSignal = (signal: NodeJS.Signals) => {
    if (isEnding) exitNow(1)
    isEnding = true
    log.info('stopping', { signal })
    end(0)
  }
  process.on('SIGTERM', onSignal)
  process.on('SIGINT', onSignal)
  return { code, end: (value) => end(value) }
}

const pollMs = 500

/** Returns the function that ends the watch. A file with problems is logged and not applied. */
export function watchConfig(
  request: LoadRequest,
  log: Log,
  onChange: (config: Config) => void,
): () => void {
  const file = configFileOf(request)
  if (file === null) return () => {}
  const path = resolve(file)
  const reload = async () => {
    const loaded = await loadConfig(request)
    if (loaded.ok) onChange(loaded.config)
    else log.warn('configuration reload failed', { reason: loaded.problems.join('; ') })
  }
  const listener = guarded(reload, faultReport(log, 'configuration reload failed'))
  watchFile(path, { interval: pollMs, persistent: false }, listener)
  return () => unwatchFile(path, listener)
}
