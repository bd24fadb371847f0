import { RESULT_LIMIT_BYTES } from '@onceward/core/edge'
import { describe, expect, test } from 'vitest'
import { checkAnswer, checkProblem, replyOf } from './answer.ts'
import { HttpProblem } from './problem.ts'

const names = new Set(['content-type', 'location'])
const check = async (answer: unknown) => checkAnswer(answer, names)
const text = ['content-type', 'text/plain; charset=utf-8']

describe('what is stored of an answer', () => {
  test('is its status, its body as a text, and the headers on the list', async () => {
    const headers = { location: '/a', 'x-trace': 'b' }
    expect(await check({ headers, body: 'ü' })).toEqual({
      stored: { v: 1, status: 200, headers: [['location', '/a'], text], text: 'ü' },
      reply: {
        ...{ status: 200, body: 'ü' },
        headers: [['location', '/a'], ['x-trace', 'b'], text],
      },
    })
    expect((await check({ status: 599 })).stored).toEqual({ v: 1, status: 599, headers: [] })
    expect((await check(undefined)).reply).toEqual({ status: 204, headers: [], body: '' })
  })

  test('has the byte order mark of its body', async () => {
    const body = Uint8Array.of(0xef, 0xbb, 0xbf, 0x61)
    const { stored } = await check({ body })
    expect(stored.text).toBe('\ufeffa')
    expect(Buffer.from(replyOf(stored)?.body ?? '')).toEqual(Buffer.from(body))
  })

  test('may take as many bytes as the inbox keeps, and no more', async () => {
    const { stored } = await check({ body: 'a' })
    const room = RESULT_LIMIT_BYTES - JSON.stringify(stored).length
    expect((await check({ body: 'a'.repeat(1 + room) })).stored.status).toBe(200)
    await expect(check({ body: 'a'.repeat(2 + room) })).rejects.toThrow(/bytes to store/)
  })

  test('is of no use without its status or its headers', () => {
    expect([replyOf({ v: 1, headers: [] }), replyOf({ v: 1, status: 200 })]).toEqual([
      undefined,
      undefined,
    ])
  })

  test('may be a problem, with its type', () => {
    const problem = new HttpProblem({
      ...{ status: 402, title: 'declined' },
      // Red when the type is compared by the case of its name: the answer has both types.
      headers: { location: '/a', 'x-trace': 'b', 'Content-Type': 'text/html' },
    })
    const { reply, stored } = checkProblem(problem, names)
    const type = ['content-type', 'application/problem+json']
    expect(stored).toMatchObject({ status: 402, headers: [['location', '/a'], type] })
    expect(reply.headers).toEqual([['location', '/a'], ['x-trace', 'b'], type])
    expect(stored.text).toContain('"title":"declined"')
  })
})

describe('an answer', () => {
  test('may be a Response of another realm, an instance with the parts of one, or have no prototype', async () => {
    const foreign = {
      ...{ [Symbol.toStringTag]: 'Response', status: 203 },
      ...{ headers: new Headers(), body: null, bodyUsed: false },
    }
    class Row {
      get status(): number {
        return 202
      }
    }
    const answers = [foreign, new Row(), Object.create(null)]
    const statuses = await Promise.all(
      answers.map(async (each) => (await check(each)).reply.status),
    )
    expect(statuses).toEqual([203, 202, 204])
  })

  test('may have an empty object as its body, also one that says so itself', async () => {
    for (const body of [
      {},
      new (class {
        toJSON = (): object => ({})
      })(),
    ]) {
      expect((await check({ body })).reply.body).toBe('{}')
    }
  })

  test('is named in the error as far as one can read it', async () => {
    const unknown = Object.fromEntries([...'abcdefg'].map((name) => [name, 1]))
    await expect(check(unknown)).rejects.toThrow('with "a", "b", "c", "d", "e", which')
    await expect(check({ ['n'.repeat(60)]: 1 })).rejects.toThrow(`with "${'n'.repeat(50)}", which`)
    const Long = Object.defineProperty(class {}, 'name', { value: 'L'.repeat(60) })
    await expect(check(new Long())).rejects.toThrow(`an instance of ${'L'.repeat(50)}. `)
  })

  test('that is no JSON has the error of JSON as the cause of its own', async () => {
    await expect(check({ body: { a: 1n } })).rejects.toMatchObject({ cause: expect.any(TypeError) })
  })
})
