// Declares the `grpc` section of the configuration.
import { flag, group, integer, text, texts, type Values } from '../../base/fields.ts'
import { grpcEncodings } from '../../base/transport/grpc-encoding.ts'

const mebibyte = 1024 * 1024

export const grpcSection = group('The gRPC endpoint of the bundle: geyser.Geyser', {
  enabled: flag({ initial: true, doc: 'Whether the endpoint opens' }),
  host: text({ initial: '127.0.0.1', doc: 'Address to listen on' }),
  // Endpoints: Bundle endpoints.
  port: integer({
    initial: 10010,
    min: 0,
    max: 65535,
    doc: 'Port to listen on; 0 is any free one',
  }),
  reflection: flag({ initial: false, doc: 'Whether the endpoint describes its services to tools' }),
  // 100,000 keys in base58 take 4.4 MiB, with their tags.
  messageBytesMax: integer({
    initial: 5 * mebibyte,
    min: 1024,
    max: 64 * mebibyte,
    unit: 'bytes',
    doc: 'Largest request message',
  }),
  backlogBytesMax: integer({
    initial: 16 * mebibyte,
    min: 64 * 1024,
    max: 1024 * mebibyte,
    unit: 'bytes',
    doc: 'Unsent bytes of one stream before it is ended as too slow',
  }),
  compression: texts({
    initial: grpcEncodings,
    check: (value) =>
      grpcEncodings.some((name) => name === value)
        ? undefined
        : `${value} must be one of ${grpcEncodings.join(', ')}`,
    doc: 'Compressions of answers, for clients that ask; [] for none',
  }),
  pingMs: integer({
    initial: 10_000,
    min: 100,
    max: 600_000,
    unit: 'ms',
    doc: 'Time between ping updates on a stream',
  }),
  keepaliveMs: integer({
    initial: 30_000,
    min: 1_000,
    max: 3_600_000,
    unit: 'ms',
    doc: 'Time between HTTP/2 pings on a connection',
  }),
  keepaliveTimeoutMs: integer({
    initial: 10_000,
    min: 1_000,
    max: 600_000,
    unit: 'ms',
    doc: 'Time to answer an HTTP/2 ping before the connection is cut',
  }),
  connectionsPerAddressMax: integer({
    initial: 256,
    min: 1,
    max: 1_000_000,
    doc: 'Connections of one client address (IPv4 /32, IPv6 /64); trusted proxies are not counted',
  }),
  connectionIdleMs: integer({
    initial: 300_000,
    min: 1_000,
    max: 86_400_000,
    unit: 'ms',
    doc: 'Time without a call after which a connection is closed',
  }),
  health: group('Limits of grpc.health.v1, which takes no token', {
    callsPerAddressMax: integer({
      initial: 16,
      min: 1,
      max: 1_000_000,
      doc: 'Open calls of one client address (IPv4 /32, IPv6 /64), Watch streams included',
    }),
    callsMax: integer({
      initial: 1_000,
      min: 1,
      max: 1_000_000,
      doc: 'Open calls of all addresses',
    }),
  }),
  filters: group('Limits of what a Subscribe request may ask for', {
    filtersMax: integer({ initial: 100, min: 1, max: 10_000, doc: 'Named filters of one kind' }),
    accountsMax: integer({
      initial: 100_000,
      min: 1,
      max: 1_000_000,
      doc: 'Keys in one list of accounts, on any plan',
    }),
    ownersMax: integer({ initial: 1_000, min: 1, max: 1_000_000, doc: 'Keys in a list of owners' }),
    dataSlicesMax: integer({ initial: 32, min: 0, max: 1_000, doc: 'Data slices of a stream' }),
    cuckooBytesMax: integer({
      initial: 4 * mebibyte,
      min: 0,
      max: 64 * mebibyte,
      unit: 'bytes',
      doc: 'Size of one cuckoo filter',
    }),
    any: flag({ initial: true, doc: 'Whether a filter without conditions is allowed' }),
    accountReject: texts({ initial: [], doc: 'Account keys that no filter may name' }),
    ownerReject: texts({ initial: [], doc: 'Owner keys that no filter may name' }),
  }),
})

export type GrpcSection = Values<typeof grpcSection.fields>
