// Tests answers that are built while they are sent, and answers that callers share.
import { describe, expect, it } from 'vitest'
import { AnswerStreams, SharedAnswer } from '../../../../src/products/metrics/routes.ts'
import { HandClock } from '../../../testkit/fake-execution.ts'

const piece = Buffer.alloc(32 * 1024, 'x')

function* pieces(count: number): Generator<Uint8Array> {
  for (let made = 0; made < count; made++) yield piece
}

describe('an answer stream', () => {
  it('returns a short answer whole', () => {
    const sent: number[] = []
    const answer = new AnswerStreams().answer(pieces(1), (bytes) => sent.push(bytes))
    expect(answer).toEqual(piece)
    expect(sent).toEqual([piece.length])
  })

  it('builds one slice per event-loop turn, over all long answers together', async () => {
    const streams = new AnswerStreams()
    let turns = 0
    const slices: number[] = []
    const read = async () => {
      const answer = streams.answer(pieces(20), () => {})
      if (answer instanceof Uint8Array) throw new Error('too short')
      let bytes = 0
      for await (const slice of answer) {
        bytes += slice.length
        slices.push(turns)
      }
      return bytes
    }
    let isOver = false
    const turn = () => {
      turns++
      if (!isOver) setImmediate(turn)
    }
    setImmediate(turn)
    const bytes = await Promise.all([read(), read(), read()])
    isOver = true
    expect(bytes).toEqual(Array(3).fill(20 * piece.length))
    // The first slice of each is sent at once; of the others no two come in one turn. A slice is
    // two pieces, as they are.
    const later = slices.slice(6)
    expect(new Set(later).size).toBe(later.length / 2)
  })

  it('joins short pieces, and copies no long one', async () => {
    const short = Buffer.from('short')
    const given = [short, short, piece, short, piece, short, ...pieces(2)]
    const answer = new AnswerStreams().answer(given.values(), () => {})
    if (answer instanceof Uint8Array) throw new Error('too short')
    const parts: Uint8Array[] = []
    for await (const part of answer) parts.push(part)
    expect(Buffer.concat(parts).equals(Buffer.concat(given))).toBe(true)
    expect(parts.filter((part) => part === piece)).toHaveLength(4)
    expect(parts[0]).toEqual(Buffer.from('shortshort'))
  })

  it('reports the bytes of an answer that was abandoned', async () => {
    const sent: number[] = []
    const answer = new AnswerStreams().answer(pieces(20), (bytes) => sent.push(bytes))
    if (answer instanceof Uint8Array) throw new Error('too short')
    for await (const slice of answer) if (slice.length > 0) break
    expect(sent).toEqual([2 * piece.length])
  })
})

describe('a shared answer', () => {
  it('is rebuilt within its rate and shared beyond it', () => {
    const clock = new HandClock()
    let made = 0
    const shared = new SharedAnswer({ perSecond: 1, burst: 3 }, clock, () => ++made)
    expect(Array.from({ length: 6 }, () => shared.get())).toEqual([1, 2, 3, 3, 3, 3])
    clock.advance(1000)
    expect([shared.get(), shared.get()]).toEqual([4, 4])
  })
})
