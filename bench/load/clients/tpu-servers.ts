// The servers of the tpu bench, one per process: our endpoint, and the native server answering a
// constant of the same size. Thread: a process of its own.
import { systemClock } from '../../../src/base/clock.ts'
import { accept } from '../../../src/base/errors.ts'
import { silentLog } from '../../../src/base/telemetry/log.ts'
import { Meters } from '../../../src/base/telemetry/meters.ts'
import { AddressBudget } from '../../../src/customers/quota/rates.ts'
import { declareTpuMeters } from '../../../src/products/tpu/meters.ts'
import { startTpu } from '../../../src/products/tpu/server.ts'
import { serveBench } from '../../../test/testkit/process.ts'
import { usedSeconds } from '../../lib/processor-time.ts'
import { tipAccounts } from '../../lib/untipped-transaction.ts'
import { startConstant } from './constant-server.ts'

const host = '127.0.0.1'
const unlimited = {
  workMsPerSecond: 1e9,
  workMsBurst: 1e9,
  bytesPerSecond: 1e15,
  bytesBurst: 1e15,
}

serveBench({
  ours: startOurs,
  bare: startConstant,
  cpuSeconds: usedSeconds,
})

/** Nothing is verified or sent: what the load sends has no tip. */
async function startOurs(): Promise<number> {
  const tpu = await startTpu(
    {
      enabled: true,
      host,
      port: 0,
      tipAccounts,
      upstreams: [],
      whenDown: 'refuse',
      wait: false,
      inFlightPerAddress: 1_000,
    },
    {
      senders: [],
      hub: null,
      slot: () => null,
      isBlockhashValid: () => null,
      gate: { admit: () => null, isExpired: () => false },
      dedicated: () => null,
      verifier: { verify: async () => accept(true) },
      meters: declareTpuMeters(new Meters()),
      // Charged as in the product, and never used up.
      addressBudget: new AddressBudget(unlimited, systemClock),
      addressRefused: { inc() {} },
      tipAccountsPath: '',
      version: {},
      tls: null,
      trustedProxies: [],
      clock: systemClock,
      log: silentLog,
    },
  )
  return tpu.address!.port
}
