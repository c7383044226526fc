// The text of a block put together and parsed.
import type { BlockText } from '../../src/upstream/ports.ts'

export interface ShownExecutionBlock {
  readonly number: string
  readonly parentHash: string
  readonly transactions: readonly (string & { hash: string; blockHash: string })[]
}

export function wholeText(text: BlockText): ShownExecutionBlock {
  const pieces: Uint8Array[] = []
  for (let index = 0; ; index++) {
    const piece = text.piece(index)
    if (piece === null) return JSON.parse(Buffer.concat(pieces).toString())
    pieces.push(piece)
  }
}
