// The `cluster` section of the configuration: what several gateways share. Thread: any.
import { flag, group, type Values } from '../base/fields.ts'

export const clusterSection = group('Several gateways as one service.', {
  sharePorts: flag({
    initial: false,
    doc: 'Lets other gateways of this machine and user listen on the same TCP ports.',
  }),
})

export type ClusterSection = Values<typeof clusterSection.fields>
