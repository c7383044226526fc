import { describe, expect, it } from 'vitest'
import { UpdateList } from '../../../../src/streams/hub/update-list.ts'

interface Word {
  readonly text: string
  readonly source?: Words
  readonly position?: number
}

/** Makes its words on each call. */
class Words {
  made = 0
  readonly #name: string

  constructor(name: string) {
    this.#name = name
  }

  update(position: number): Word {
    this.made++
    return { text: `${this.#name}${position}`, source: this, position }
  }
}

const texts = (list: UpdateList<Word>) => [...list].map(({ text }) => text)

describe('a list of updates', () => {
  it('reads back what was pushed, in order, from several sources and without one', () => {
    const list = new UpdateList<Word>()
    const [a, b] = [new Words('a'), new Words('b')]
    for (const position of [3, 4, 5]) list.push(a.update(position))
    list.push({ text: 'kept' })
    list.push(b.update(0))
    // A gap, a step back and a duplicate each begin a run of their own.
    for (const position of [7, 6, 6]) list.push(a.update(position))
    expect(texts(list)).toEqual(['a3', 'a4', 'a5', 'kept', 'b0', 'a7', 'a6', 'a6'])
    expect(list.length).toBe(8)
  })

  it('keeps no update that its source can make again, and keeps the others', () => {
    const list = new UpdateList<Word>()
    const words = new Words('w')
    const [first, kept] = [words.update(0), { text: 'kept' }]
    list.push(first)
    list.push(kept)
    const [again, same] = [...list]
    expect(again).toEqual(first)
    expect(again).not.toBe(first)
    expect(same).toBe(kept)
    expect(words.made).toBe(2)
  })

  it('continues a reader at its end with what is pushed later', () => {
    const list = new UpdateList<Word>()
    const words = new Words('w')
    const reader = list.reader()
    expect(reader.next()).toBeNull()
    list.push(words.update(0))
    expect(reader.next()?.text).toBe('w0')
    expect(reader.next()).toBeNull()
    // The run that the reader has read to its end grows.
    list.push(words.update(1))
    expect(reader.next()?.text).toBe('w1')
    list.push({ text: 'kept' })
    list.push(words.update(2))
    expect([reader.next()?.text, reader.next()?.text, reader.next()]).toEqual(['kept', 'w2', null])
  })
})
