// Reloads the configuration file when it changes, while the server runs.
// The topology applies only what may change without a restart.
import { unwatchFile, watchFile } from 'node:fs'
import { resolve } from 'node:path'
import { guarded } from '../../base/guard.ts'
import { faultReport, type Log } from '../../base/telemetry/log.ts'
import type { Config } from '../config/config.ts'
import { configFileOf, type LoadRequest, loadConfig } from '../config/load.ts'

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
