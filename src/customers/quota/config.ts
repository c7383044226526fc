// The configuration of the budget per client address.
import { group, integer, type Value } from '../../base/fields.ts'

export const addressBudgetSection = group(
  'What one client address (IPv4 /32, IPv6 /64) may cost on the open endpoints together.',
  {
    workMsPerSecond: integer({
      initial: 15,
      min: 0,
      max: 1_000,
      unit: 'ms',
      doc: 'Main-thread time per second; 0 turns the budget off.',
    }),
    workMsBurst: integer({
      initial: 300,
      min: 1,
      max: 60_000,
      unit: 'ms',
      doc: 'Main-thread time that may be used at once after a pause.',
    }),
    bytesPerSecond: integer({
      initial: 4 * 1024 * 1024,
      min: 1_024,
      max: Number.MAX_SAFE_INTEGER,
      unit: 'bytes',
      doc: 'Bytes of answers per second.',
    }),
    bytesBurst: integer({
      initial: 32 * 1024 * 1024,
      min: 1_024,
      max: Number.MAX_SAFE_INTEGER,
      unit: 'bytes',
      doc: 'Bytes of answers that may be sent at once after a pause.',
    }),
  },
)

export type AddressLimits = Value<typeof addressBudgetSection>
