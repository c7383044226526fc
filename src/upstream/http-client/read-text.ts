// Reads a response whole as UTF-8 text, for small responses of which no byte is forwarded.
import { BodyStream } from './body-stream.ts'
import type { HttpResponse } from './http-request.ts'

const BYTES_MAX = 1024 * 1024

/** Null when the body is longer than `bytesMax`, or broken. Never rejects. */
export async function readText(
  { body }: HttpResponse,
  bytesMax = BYTES_MAX,
): Promise<string | null> {
  if (typeof body === 'string') return body
  if (!(body instanceof BodyStream)) {
    const text = body.bytes.toString()
    body.release()
    return text
  }
  const chunks: Buffer[] = []
  let length = 0
  try {
    for (let bytes = await body.read(); bytes !== null; bytes = await body.read()) {
      chunks.push(Buffer.from(bytes))
      length += bytes.length
      if (length > bytesMax) {
        body.cancel()
        return null
      }
    }
  } catch {
    return null
  }
  return Buffer.concat(chunks).toString()
}
