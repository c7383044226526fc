// Reads the configuration file again when it changes, while the server runs. Thread: main.
// Only what may change without a restart is taken over; the topology knows what that is.
import { unwatchFile, watchFile } from 'node:fs'
import { resolve } from 'node:path'
import { guarded } from '../base/guard.ts'
import type { Config } from '../config/config.ts'
import { configFileOf, type LoadRequest, loadConfig } from '../config/load.ts'
import { faultReport, type Log } from '../telemetry/log.ts'

const lookMs = 500

/** Returns what ends the watch. A file with problems is reported and changes nothing. */
export function watchConfig(
  request: LoadRequest,
  log: Log,
  onChange: (config: Config) => void,
): () => void {
  const file = configFileOf(request)
  if (file === null) return () => {}
  const path = resolve(file)
  const onLook = async () => {
    const loaded = await loadConfig(request)
    if (loaded.ok) onChange(loaded.config)
    else log.warn('the changed configuration is not taken', { reason: loaded.problems.join('; ') })
  }
  const listener = guarded(onLook, faultReport(log, 'the changed configuration could not be read'))
  watchFile(path, { interval: lookMs, persistent: false }, listener)
  return () => unwatchFile(path, listener)
}
