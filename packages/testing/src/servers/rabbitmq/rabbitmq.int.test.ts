// @module-tag nightly

import { connect } from 'amqplib'
import { afterEach, expect, test, vi } from 'vitest'
import { until } from '../../until.ts'
import { skipped } from '../run/server.ts'
import { rabbitmq } from './rabbitmq.ts'
import { quorumQueuesOnDisk } from './rabbitmqctl.ts'

async function send(url: string, queue: string, body: string): Promise<void> {
  const connection = await connect(url)
  const channel = await connection.createConfirmChannel()
  await channel.assertQueue(queue, { durable: true, arguments: { 'x-queue-type': queue } })
  channel.sendToQueue(queue, Buffer.from(body), { persistent: true })
  await channel.waitForConfirms()
  await connection.close()
}

async function receive(url: string, queue: string): Promise<string> {
  const connection = await connect(url)
  const channel = await connection.createChannel()
  // A quorum queue has none until it has elected its leader again.
  const message = await until(() => channel.get(queue, { noAck: true }))
  await connection.close()
  return message.content.toString()
}

afterEach(() => vi.unstubAllEnvs())

test.skipIf(skipped('rabbitmq'))(
  'a killed RabbitMQ restarts on its port with every message it confirmed',
  { tags: 'nightly', timeout: 180_000 },
  async ({ skip }) => {
    await using server = await rabbitmq()
    skip(!server.canKill, 'the server belongs to the user')
    const { url } = server.connection
    await send(url, 'classic', 'charge')
    await send(url, 'quorum', 'charge')
    await quorumQueuesOnDisk(server)

    await server.kill('SIGKILL')
    await expect(connect(url)).rejects.toThrow(/ECONNREFUSED/)

    await server.restart()
    expect(await receive(url, 'classic')).toBe('charge')
    expect(await receive(url, 'quorum')).toBe('charge')

    vi.stubEnv('ONCEWARD_RABBITMQ_URL', url)
    await using theirs = await rabbitmq()
    expect(theirs).toMatchObject({ how: 'environment', connection: { url } })
  },
)
