// Declares the `tpu` section of the configuration.
import {
  choice,
  type Field,
  flag,
  group,
  integer,
  text,
  texts,
  type Values,
} from '../../base/fields.ts'
import { decodeKey } from '../../chain/solana/base58.ts'

/** Where the spec is silent: number of tip accounts. */
export const tipAccountsMax = 32

export const tpuSection = group('Transaction submission gated by a tip.', {
  enabled: flag({ initial: true, doc: 'Opens the endpoint.' }),
  host: text({ initial: '127.0.0.1', doc: 'Address to listen on.' }),
  port: integer({ initial: 8901, min: 0, max: 65_535, doc: 'Port; 0 takes any free one.' }),
  tipAccounts: accounts(
    texts({
      initial: [],
      doc:
        `Accounts that tips go to, 1 to ${tipAccountsMax} keys, reloaded when they change; ` +
        'empty generates eight on the embedded chain.',
      check: (value) =>
        decodeKey(value) !== null ? undefined : `${value} is not an account's address in base58`,
    }),
  ),
  upstreams: texts({
    initial: [],
    // Providers put API keys into such addresses.
    secret: true,
    doc:
      'JSON-RPC addresses, or names of upstream sets, to which each transaction is sent in ' +
      'parallel; empty uses chain.source.',
    check: (value) =>
      isAddress(value) || !/[:/]/.test(value)
        ? undefined
        : 'an upstream is an http:// or https:// address, or the name of a set',
  }),
  whenDown: choice(['refuse', 'queue'], {
    initial: 'refuse',
    doc: 'While no upstream is healthy: refuse, or keep up to 10,000 until they expire.',
  }),
  wait: flag({
    initial: false,
    doc: 'Answers after the first response of an upstream instead of on acceptance.',
  }),
  inFlightPerAddress: integer({
    initial: 256,
    min: 1,
    max: 100_000,
    doc: 'Requests in flight per client address, waiting for body or answer.',
  }),
})

export type TpuSection = Values<typeof tpuSection.fields>

/** Adds the rules of the whole list to the field. */
function accounts(each: Field<readonly string[]>): Field<readonly string[]> {
  return {
    ...each,
    bounds: `at most ${tipAccountsMax}, each once`,
    parse(raw) {
      const parsed = each.parse(raw)
      if (!parsed.ok) return parsed
      const { length } = parsed.value
      if (length > tipAccountsMax) return { ok: false, problem: `has more than ${tipAccountsMax}` }
      if (new Set(parsed.value).size < length)
        return { ok: false, problem: 'names an account twice' }
      return parsed
    },
  }
}

/** An http(s) address; anything else can only be the name of a set. */
export function isAddress(value: string): boolean {
  try {
    return /^https?:$/.test(new URL(value).protocol)
  } catch {
    return false
  }
}
