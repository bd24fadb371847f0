import { kafka, rabbitmq, type Server, type ServiceName, sqs } from '@onceward/testing'
import { quorumQueuesOnDisk, rabbitmqctl } from '@onceward/testing/adapter'
import { createQueue, type Queue, type QueueOptions } from './amqp-queue.ts'
import { createTopic, type Topic, type TopicOptions } from './kafka-topic.ts'
import { freshName, type Place } from './queue-under-test.ts'
import { createQueues } from './queues.ts'

/** A broker, so that what every adapter promises is one test for all of them. */
export interface Broker<Queue extends Place = Place, Options = never> {
  readonly title: string
  readonly service: ServiceName
  start(): Promise<RunningBroker<Queue, Options>>
}

export interface RunningBroker<Queue extends Place = Place, Options = never> {
  readonly server: Server<unknown>
  /** A queue, or topic, of its own. */
  createPlace(options?: Options): Promise<Queue>
  /** Ends all connections to it as its operators do, where they have such a command. */
  readonly disconnect?: (() => Promise<void>) | undefined
}

export const SQS: Broker = {
  title: 'SQS',
  service: 'sqs',
  start: async () => {
    const server = await sqs({ process: true, native: true })
    const createPlace = (): Promise<Place> => createQueues(server.connection, freshName())
    return { server, createPlace }
  },
}

/** On a starved machine a node whose session ends within two seconds fences itself for ever. */
const PATIENT = { 'broker.session.timeout.ms': '9000' }

export const KAFKA: Broker<Topic, TopicOptions> = {
  title: 'Kafka',
  service: 'kafka',
  start: async () => {
    const server = await kafka({ settings: PATIENT })
    return {
      server,
      createPlace: (options) => createTopic(server.connection, freshName(), options),
    }
  },
}

export const rabbitOf = (
  type: 'classic' | 'quorum',
  own: QueueOptions = {},
): Broker<Queue, QueueOptions> => ({
  title: `RabbitMQ, ${type} queue`,
  service: 'rabbitmq',
  start: async () => {
    const server = await rabbitmq()
    const ctl = rabbitmqctl(server)
    return {
      server,
      createPlace: async (options) => {
        const { url } = server.connection
        const place = await createQueue(url, freshName(), { type, ...own, ...options })
        if (type === 'quorum') await quorumQueuesOnDisk(server)
        return place
      },
      disconnect: ctl && (async () => void (await ctl('close_all_connections', 'a test'))),
    }
  },
})

export const RABBITMQ: Broker<Queue, QueueOptions> = rabbitOf('classic')
