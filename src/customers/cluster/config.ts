// The `cluster` section of the configuration: what several gateways share.
import { flag, group, integer, text, type Values } from '../../base/fields.ts'

/** Statements and transactions that wait for a connection to PostgreSQL. */
export const queueMax = 1_000

export const clusterSection = group('Several gateways as one service.', {
  url: text({
    initial: '',
    secret: true,
    doc: 'Address of the PostgreSQL, postgres://user:password@host,host/database; empty: alone.',
    check: (value) =>
      value === '' || /^postgres(ql)?:\/\//.test(value)
        ? undefined
        : 'must start with postgres:// or postgresql://',
  }),
  gateway: text({
    initial: '',
    doc: 'Name of this gateway in status and meters; empty means the host name.',
    check: (value) =>
      /^[A-Za-z0-9._-]{0,64}$/.test(value)
        ? undefined
        : 'must be up to 64 letters, digits or . _ -',
  }),
  staleMs: integer({
    initial: 60_000,
    min: 1_000,
    max: 600_000,
    unit: 'ms',
    doc: 'Without an answer of PostgreSQL for this long the gateway is not ready.',
  }),
  gateways: integer({
    initial: 0,
    min: 0,
    max: 64,
    doc: 'Gateway processes that this server starts as their hub; 0 serves in this process.',
  }),
  sharePorts: flag({
    initial: false,
    doc: 'Lets other gateways of this machine and user listen on the same TCP ports.',
  }),
})

export type ClusterSection = Values<typeof clusterSection.fields>
