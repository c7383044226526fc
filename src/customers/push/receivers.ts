// Where pushed usage goes: a receiver over HTTP, or a file; and in which form.
import { type FileHandle, open } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { Clock } from '../../base/clock.ts'
import { Fault } from '../../base/errors.ts'
import { postWebhook } from '../../base/transport/webhook.ts'
import type { Store } from '../subscriptions/store.ts'
import type { PushBatch } from '../subscriptions/usage.ts'
import type { UsagePushSection } from './config.ts'
import type { PushDeps, PushQueue } from './push.ts'

const contentType = 'application/x-ndjson'
/** Records of one request. */
const recordsMax = 1_000

/** Usage in batches of lines. */
export function usageQueue({ take, ...unpushed }: Store['unpushed']): PushQueue {
  return {
    ...unpushed,
    async take() {
      const batch = await take(recordsMax)
      return batch && { id: batch.id, body: linesOf(batch), records: batch.rows.length }
    },
  }
}

/** One record per line; a record has the same id and bytes in every attempt. */
function linesOf({ id, at, rows }: PushBatch): string {
  const lines = rows.map(({ id: subscription, ...use }, index) =>
    JSON.stringify({ id: `${id}-${index}`, at, subscription, ...use }),
  )
  return `${lines.join('\n')}\n`
}

export function receiverOf(
  { url, secret, file }: UsagePushSection,
  clock: Clock,
): Pick<PushDeps, 'send' | 'to'> {
  if (url === '') {
    const path = resolve(file)
    return { to: path, send: ({ body }) => appendLines(path, body) }
  }
  return {
    to: new URL(url).origin,
    send: ({ id, body }, signal) =>
      postWebhook({ url, secret }, { id, type: contentType, body }, { clock, signal }),
  }
}

/**
 * Appends lines and resolves when they are on disk. Opened for every call, so that the file may be
 * moved away, and written at once, so that several processes may share it. What a full disk or a
 * kill has cut off stays a line of its own; its records follow whole.
 */
export async function appendLines(path: string, lines: string): Promise<void> {
  const file = await open(path, 'a+', 0o600)
  try {
    const bytes = Buffer.from((await endsInLine(file)) ? lines : `\n${lines}`)
    const { bytesWritten } = await file.write(bytes)
    if (bytesWritten < bytes.length)
      throw new Fault('usage-file', `${path}: no space for all lines`, { retryable: true })
    await file.datasync()
  } finally {
    await file.close()
  }
}

async function endsInLine(file: FileHandle): Promise<boolean> {
  const { size } = await file.stat()
  if (size === 0) return true
  const { buffer } = await file.read(Buffer.alloc(1), 0, 1, size - 1)
  return buffer[0] === 0x0a
}
