import { ConfigurationError } from '@onceward/core'
import { describe, expect, test, vi } from 'vitest'
import {
  BodyTooLargeError,
  fromWebRequest,
  headerOf,
  joined,
  keptBytes,
  readStream,
  readUnused,
} from './request.ts'

const bytes = (...values: number[]): Uint8Array => Uint8Array.from(values)

test('a header that repeats has its values joined', () => {
  const of = (...values: string[]) => headerOf({ valuesOf: () => values }, 'a')
  expect([of(), of('b'), of('b', 'c')]).toEqual([undefined, 'b', 'b, c'])
})

test('kept bytes may be as many as the limit', () => {
  expect(keptBytes(bytes(1, 2), 2)).toEqual(bytes(1, 2))
  expect(() => keptBytes(bytes(1, 2), 1)).toThrow(BodyTooLargeError)
})

test('pieces are joined in their order, and a single one is not copied', () => {
  const piece = bytes(1, 2)
  expect(joined([piece], 2)).toBe(piece)
  expect(joined([], 0)).toEqual(bytes())
  expect(joined([piece, bytes(3), bytes(4, 5)], 5)).toEqual(bytes(1, 2, 3, 4, 5))
})

describe('a stream of bytes', () => {
  const streamOf = (cancel: () => unknown, ...pieces: Uint8Array[]) =>
    new ReadableStream<Uint8Array>({
      pull: (controller) => {
        const piece = pieces.shift()
        if (piece === undefined) controller.close()
        else controller.enqueue(piece)
      },
      cancel: async () => void (await cancel()),
    })

  test('is read to its end, up to the limit', async () => {
    expect(await readStream(null, 5)).toEqual(bytes())
    const cancel = vi.fn()
    expect(await readStream(streamOf(cancel, bytes(1, 2), bytes(3)), 3)).toEqual(bytes(1, 2, 3))
    expect(cancel).not.toHaveBeenCalled()
  })

  test('that is longer is cancelled, whatever comes of that', async () => {
    const cancel = vi.fn().mockRejectedValueOnce(new Error('no')).mockResolvedValueOnce(undefined)
    for (let time = 0; time < 2; time++) {
      const reading = readStream(streamOf(cancel, bytes(1, 2), bytes(3)), 2)
      await expect(reading).rejects.toThrow(BodyTooLargeError)
    }
    expect(cancel).toHaveBeenCalledTimes(2)
  })
})

describe('a Web Request', () => {
  const request = (init: RequestInit = {}): Request =>
    new Request('http://x/charges?a=1', { method: 'POST', body: 'abc', ...init })

  test('is handed over as it is', async () => {
    const given = request({ headers: { 'x-a': 'b' } })
    const incoming = fromWebRequest(given)
    expect(incoming).toMatchObject({ method: 'POST', target: '/charges?a=1' })
    expect([incoming.valuesOf('x-a'), incoming.valuesOf('x-b')]).toEqual([['b'], []])
    const read = await incoming.readBytes(3)
    expect(read).toEqual(Uint8Array.from(Buffer.from('abc')))
    const seen = incoming.withBytes(read)
    expect(seen).toMatchObject({ method: 'POST', url: 'http://x/charges?a=1', original: given })
    expect([seen.bytes, seen.headers]).toEqual([read, given.headers])
  })

  test('may be read by a framework, whose own request is the original', async () => {
    const parts = { original: 'context', readBytes: () => bytes(1) }
    const incoming = fromWebRequest(request(), parts)
    expect(await incoming.readBytes(5)).toEqual(bytes(1))
    expect(incoming.withBytes(bytes()).original).toBe('context')
  })

  test('tells when its client hangs up', () => {
    const controller = new AbortController()
    const incoming = fromWebRequest(request({ signal: controller.signal }))
    const signal = incoming.hangUp()
    expect([incoming.isGone(), signal.aborted]).toEqual([false, false])
    controller.abort()
    expect([incoming.isGone(), signal.aborted]).toEqual([true, true])
  })

  test.each([
    ['5', 'read'],
    ['6', 'refused'],
    ['100000000000000000000', 'refused'],
    ['', 'read'],
    ['6, 6', 'read'],
    ['many', 'read'],
  ])('that declares a length of %j is %s before its body is looked at', async (length, what) => {
    const body = vi.fn(() => null)
    const given = { bodyUsed: false, headers: new Headers({ 'content-length': length }) }
    Object.defineProperty(given, 'body', { get: body })
    const reading = readUnused(given as unknown as Request, 5)
    if (what === 'read') expect(await reading).toEqual(bytes())
    else await expect(reading).rejects.toThrow(BodyTooLargeError)
    expect(body).toHaveBeenCalledTimes(what === 'read' ? 1 : 0)
  })

  test('whose body is used or locked is refused', async () => {
    const [used, locked] = [request(), request()]
    await used.text()
    locked.body?.getReader()
    for (const each of [used, locked]) {
      await expect(fromWebRequest(each).readBytes(5)).rejects.toThrow(ConfigurationError)
    }
    expect(await fromWebRequest(request({ body: null })).readBytes(5)).toEqual(bytes())
  })
})
