// LaserStream as its README uses it: `CompressionAlgorithms` of the channel, or none.
import { createRequire } from 'node:module'

export type LaserAlgorithm = 'zstd' | 'gzip' | undefined

export interface LaserUpdates {
  readonly updates: Record<string, unknown>[]
  readonly errors: unknown[]
  cancel(): void
}

/** Subscribes to slots and accounts. */
export async function followLaserStream(
  endpoint: string,
  apiKey: string,
  algorithm: LaserAlgorithm,
): Promise<LaserUpdates> {
  const require = createRequire(import.meta.url)
  const { subscribe, CommitmentLevel, CompressionAlgorithms } = require('helius-laserstream')
  const updates: Record<string, unknown>[] = []
  const errors: unknown[] = []
  const compressed = algorithm && {
    channelOptions: {
      'grpc.default_compression_algorithm': CompressionAlgorithms[algorithm],
      'grpc.max_receive_message_length': 1_000_000_000,
    },
  }
  const stream = await subscribe(
    { apiKey, endpoint, maxReconnectAttempts: 1, ...compressed },
    {
      slots: { client: {} },
      accounts: { all: { account: [], owner: [], filters: [] } },
      commitment: CommitmentLevel.PROCESSED,
    },
    async (update: Record<string, unknown>) => updates.push(update),
    async (error: unknown) => errors.push(error),
  )
  return { updates, errors, cancel: () => stream.cancel() }
}
