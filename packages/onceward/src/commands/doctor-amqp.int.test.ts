// @module-tag nightly

import { rabbitmq, skipped } from '@onceward/testing'
import { type ChannelModel, connect, type Options } from 'amqplib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { cli } from '../fixtures/cli.ts'
import { examined, saying } from '../fixtures/examined.ts'
import { type Operated, operated } from '../fixtures/operated.ts'

describe.skipIf(skipped('rabbitmq'))('doctor --broker amqp://', () => {
  let server: Awaited<ReturnType<typeof rabbitmq>>
  let connection: ChannelModel
  let at: Operated
  let env: Record<string, string>
  let base: URL

  beforeAll(async () => {
    at = await operated()
    await at.send('registers the consumer', {})
    server = await rabbitmq({ native: true })
    connection = await connect(server.connection.url)
    base = new URL(server.connection.url)
    // The user name and password of the server are in the environment alone.
    env = { AMQP_USERNAME: base.username || 'guest', AMQP_PASSWORD: base.password || 'guest' }
    base.username = ''
    base.password = ''
  }, 120_000)
  afterAll(async () => {
    await connection?.close()
    await server?.stop()
    await at?.[Symbol.asyncDispose]()
  })

  const address = (parameters: string): string => `${base.href}?${parameters}`

  async function declare(queue: string, options: Options.AssertQueue = {}): Promise<void> {
    const channel = await connection.createChannel()
    await channel.assertQueue(queue, { durable: true, ...options })
    await channel.close()
  }
  const having = (args: Readonly<Record<string, unknown>>): Options.AssertQueue => ({
    arguments: { ...args },
  })

  test('a queue whose settings fit has no findings, and nothing is declared', async () => {
    await declare('fits')
    await declare('fits.dead')
    expect(await examined(at, [address('queue=fits&dead-letter=fits.dead')], env)).toEqual([])
    const channel = await connection.createChannel()
    channel.on('error', () => undefined)
    await expect(channel.checkQueue('fits.retry.1000')).rejects.toThrow(/NOT_FOUND/)
  })

  test('each setting that does not fit is found', async () => {
    await declare('auto', { autoDelete: true, durable: false })
    await declare('limited', having({ 'x-queue-type': 'quorum', 'x-delivery-limit': 3 }))
    await declare('leaky', having({ 'x-message-ttl': 60_000, 'x-max-length': 5 }))
    await declare('expiring', having({ 'x-expires': 60_000 }))
    await declare('lost', having({ 'x-dead-letter-exchange': 'nowhere' }))
    await declare('stream', having({ 'x-queue-type': 'stream' }))
    const of = (parameters: string) => examined(at, [address(parameters)], env)
    expect(await of('queue=auto')).toEqual([
      saying(/^error: 'auto' is declared with auto_delete.* → Declare it without\./),
      saying(/^warning: 'auto' is not durable.* → Declare it durable\./),
    ])
    expect(await of('queue=limited')).toEqual([
      saying(/^error: 'limited' is a quorum queue with x-delivery-limit 3 and no x-dead-letter/),
    ])
    expect(await of('queue=limited&policy')).toEqual([])
    expect(await of('queue=leaky')).toEqual([
      saying(/^warning: The broker drops messages that wait in 'leaky' for 60000 ms/),
      saying(/^warning: A full 'leaky' drops its oldest messages/),
    ])
    expect(await of('queue=expiring')).toEqual([
      saying(/^warning: 'expiring' goes with its messages/),
    ])
    expect(await of('queue=lost')).toEqual([
      saying(/^error: The exchange of `x-dead-letter-exchange`, 'nowhere', does not exist/),
    ])
    expect(await of('queue=stream')).toEqual([
      saying(/^error: 'stream' is a stream.* → Use a classic or a quorum queue\./),
    ])
    expect(await of('queue=auto&dead-letter=dlx')).toContainEqual(
      saying(/^warning: `deadLetter` is 'dlx', but 'auto' has no x-dead-letter-exchange/),
    )
  })

  test('queues that are missing, several at once, are found', async () => {
    await declare('there')
    const addresses = [address('queue=gone'), address('queue=there&dead-letter=there.dead')]
    expect(await examined(at, addresses, env)).toEqual([
      saying(/^error: The queue of `queue`, 'gone', does not exist.* → Declare it, or correct/),
      saying(/^error: The queue of `deadLetter.queue`, 'there.dead', does not exist/),
    ])
  })

  test('a refused password and a frozen broker end in time, with exit code 3 and without the password', async () => {
    await declare('frozen')
    const wrong = address('queue=frozen').replace('//', '//guest:s3cr3t-pass@')
    const refused = await cli(['doctor', '--broker', wrong], at)
    await server.kill('SIGSTOP')
    const frozen = await cli(['doctor', '--broker', address('queue=frozen')], { ...at, env })
    await server.kill('SIGCONT')
    expect([refused.code, frozen.code]).toEqual([3, 3])
    expect(refused.stderr).toMatch(/^onceward: No answer from RabbitMQ at .*ACCESS.REFUSED/)
    expect(frozen.stderr).toMatch(/^onceward: No answer from RabbitMQ at [\w.]+:\d+/)
    expect(frozen.stdout).toContain('fsync is off')
    for (const { stderr, stdout } of [refused, frozen]) {
      expect(stdout + stderr).not.toMatch(/s3cr3t-pass|\n\s+at /)
    }
  })
})
