// Declares the `shredstream` section of the configuration.
import { parseAddress, parseCidr } from '../../base/cidr.ts'
import { choice, flag, group, integer, text, texts, type Values } from '../../base/fields.ts'
import { coresMax, lastCore } from './core.ts'

const mebibyte = 1024 * 1024

export const shredstreamSection = group('ShredStream Raw: shreds by UDP to registered addresses', {
  enabled: flag({ initial: true, doc: 'Whether shreds are received and forwarded' }),
  host: text({
    initial: '127.0.0.1',
    doc: 'Address on which shreds are received',
    check: (value) => (parseAddress(value) === null ? 'must be a literal address' : undefined),
  }),
  port: integer({
    initial: 20_000,
    min: 0,
    max: 65_535,
    doc: 'UDP port on which shreds are received; 0 is any free one',
  }),
  sourceHost: text({
    initial: '',
    doc: 'Address from which shreds are sent; empty follows host: loopback, any, or that one',
    check: (value) =>
      value === '' || parseAddress(value) !== null ? undefined : 'must be a literal address',
  }),
  sourcePort: integer({
    initial: 0,
    min: 0,
    max: 65_535,
    doc: 'The one UDP port from which shreds are sent; 0 is the one after port (any, if that is 0)',
  }),
  feed: choice(['embedded', 'udp'], {
    initial: 'embedded',
    doc: 'Where shreds come from: made from the embedded chain’s blocks, or sent by the sources',
  }),
  sources: texts({
    initial: ['127.0.0.1', '::1'],
    doc: 'Addresses or CIDRs whose packets are accepted, at most 16; meters number them in order',
    check: (value) =>
      parseCidr(value) === null ? `${value} is not an address or CIDR` : undefined,
  }),
  version: integer({
    initial: 0,
    min: 0,
    max: 65_535,
    doc: 'Shred version of the cluster; others are dropped. 0 accepts any (embedded: its own)',
  }),
  allowPrivate: flag({
    initial: false,
    doc: 'Whether private and loopback addresses may be destinations (always when all is embedded)',
  }),
  io: choice(['batch', 'poll', 'dgram'], {
    initial: 'batch',
    doc: 'Batched calls, the same polled without a pause on a core of its own, or Node sockets',
  }),
  core: integer({
    initial: lastCore,
    min: lastCore,
    max: coresMax - 1,
    doc: 'Core to which io: poll pins the worker; -1 is the last one that the process may use',
  }),
  idle: choice(['sleep', 'yield', 'spin'], {
    initial: 'sleep',
    doc: 'What io: batch does while idle: spin and yield save microseconds but occupy a core',
  }),
  segments: flag({
    initial: true,
    doc: 'Whether bursts of equal shreds are sent as GSO segment batches where the kernel can',
  }),
  verify: flag({
    initial: false,
    doc: 'Whether a shred must carry a signature of one of the leaders to be forwarded',
  }),
  leaders: texts({
    initial: [],
    doc: 'Base58 keys of the leaders, for verify; the embedded chain’s own is known',
  }),
  recover: flag({
    initial: false,
    doc: 'Whether lost shreds are rebuilt and sent as soon as half of their set has arrived',
  }),
  packetsPerSecondMax: integer({
    initial: 20_000,
    min: 100,
    max: 100_000_000,
    unit: 'packets',
    doc: 'Cap of one destination',
  }),
  megabitsPerSecondMax: integer({
    initial: 250,
    min: 1,
    max: 1_000_000,
    unit: 'Mbit/s',
    doc: 'Cap of one destination',
  }),
  bufferBytes: integer({
    initial: 32 * mebibyte,
    min: 64 * 1024,
    max: 1024 * mebibyte,
    unit: 'bytes',
    doc: 'Socket buffers requested from the kernel (net.core.rmem_max limits what it grants)',
  }),
})

/** The port from which shreds are sent; 0 is any free one. */
export function sourcePortOf(section: { readonly port: number; readonly sourcePort: number }) {
  if (section.sourcePort !== 0) return section.sourcePort
  return section.port === 0 || section.port === 65_535 ? 0 : section.port + 1
}

export type ShredstreamSection = Values<typeof shredstreamSection.fields>
