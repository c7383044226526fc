// Compresses answers with gzip where the client takes it, on other threads.
import { pipeline } from 'node:stream'
import { promisify } from 'node:util'
import { constants, createGzip, gzip } from 'node:zlib'
import { Reply, type ResponseHead } from '../../base/transport/reply.ts'
import type { Request } from '../../base/transport/request.ts'

export const compress = promisify(gzip)

export function takesGzip(request: Request): boolean {
  return /\bgzip\b/i.test(request.header('accept-encoding'))
}

/** An answer that is whole or built while it is sent. */
export async function compressedReply(
  request: Request,
  head: ResponseHead,
  answer: Uint8Array | AsyncIterable<Uint8Array>,
): Promise<Reply> {
  const varied = head.and('vary', 'accept-encoding')
  if (!takesGzip(request)) return new Reply(200, varied, answer)
  const coded = varied.and('content-encoding', 'gzip')
  if (answer instanceof Uint8Array) return new Reply(200, coded, await compress(answer))
  const zip = createGzip({ level: constants.Z_BEST_SPEED })
  // A client that disconnects ends both.
  pipeline(answer, zip, () => {})
  return new Reply(200, coded, zip)
}
