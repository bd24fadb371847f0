import { describe, expect, test } from 'vitest'
import { type RedisLike, type ScriptCall, toEvaluate } from './client.ts'

const [key, bytes] = ['key', Buffer.from('id')]
const call: ScriptCall = { source: 'return 1', sha: 'abc', keys: [key, bytes], args: ['1', '2'] }
const flat = [2, key, bytes, '1', '2']
const named = { keys: [key, bytes], arguments: ['1', '2'] }

const noScript = () => Promise.reject(new Error('NOSCRIPT No matching script. Please use EVAL.'))
type Answer = (command: string) => Promise<unknown>
const answering: Answer = async (command) => `answer of ${command}`
const forgetful: Answer = (command) => (/sha/i.test(command) ? noScript() : answering(command))

/** Evaluates one script with a client that has these methods. */
function setUp(names: readonly string[], answer: Answer, beside: object = {}) {
  const sent: unknown[][] = []
  const methodOf = (name: string) =>
    function (this: unknown, ...args: unknown[]): Promise<unknown> {
      // The methods of a client need their client.
      expect(this).toBe(client)
      sent.push([name, ...args])
      return answer(name)
    }
  const client = {
    ...Object.fromEntries(names.map((name) => [name, methodOf(name)])),
    createBuiltinCommand: (name: string) => ({ string: methodOf(`lone ${name}`) }),
    ...beside,
  }
  const evaluate = toEvaluate(client as unknown as RedisLike)
  return { sent, asked: evaluate(call) }
}

const nodeRedis = ['evalSha', 'eval']
const ioredis = ['evalsha', 'eval', 'script']

describe('a script', () => {
  test.each([
    ['node-redis', nodeRedis, [['evalSha', 'abc', named]]],
    ['ioredis', ioredis, [['evalsha', 'abc', ...flat]]],
  ])('is sent by its hash with %s', async (_, methods, expected) => {
    const { asked, sent } = setUp(methods, answering)
    expect(await asked).toBe(`answer of ${methods[0]}`)
    expect(sent).toEqual(expected)
  })

  test.each([
    ['node-redis', nodeRedis, ['eval', 'return 1', named]],
    ['ioredis', ioredis, ['eval', 'return 1', ...flat]],
  ])('is sent as text with %s if the server does not know it', async (_, methods, expected) => {
    const { asked, sent } = setUp(methods, forgetful)
    expect(await asked).toBe('answer of eval')
    expect(sent.slice(1)).toEqual([expected])
  })

  test('is loaded and sent by its hash again with a client that has no eval()', async () => {
    let loaded = false
    const { asked, sent } = setUp(['evalsha', 'script'], async (command) => {
      if (command === 'evalsha' && !loaded) return noScript()
      loaded = true
      return answering(command)
    })
    expect(await asked).toBe('answer of evalsha')
    expect(sent).toEqual([
      ['evalsha', 'abc', ...flat],
      ['script', 'LOAD', 'return 1'],
      ['evalsha', 'abc', ...flat],
    ])
  })

  // Red when a call that may have run is sent again: a claim whose answer was lost is then counted by the next one.
  test.each([
    ['another error', new Error('READONLY no matching NOSCRIPT')],
    ['what is no error', { message: 'NOSCRIPT' }],
    ['a text', 'NOSCRIPT'],
  ])('is not sent again after %s', async (_, thrown) => {
    for (const methods of [nodeRedis, ioredis]) {
      const { asked, sent } = setUp(methods, () => Promise.reject(thrown))
      await expect(asked).rejects.toBe(thrown)
      expect(sent).toHaveLength(1)
    }
  })
})
