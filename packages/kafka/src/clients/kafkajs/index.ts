import type { KafkaAdmin, KafkaClient } from '../../client.ts'
import type { ClusterView, KafkaClientPort } from '../port.ts'
import { askCluster, lookOnlyAt, topicNames, unseenAmong } from './ask-cluster.ts'
import { type Before, KafkajsConsumer } from './consumer.ts'
import { consumerOf } from './group.ts'

/** `ConfigResourceTypes.TOPIC`, as a number because it is all that is needed of kafkajs here. */
const TOPIC = 2

/** kafkajs behind the port. */
export const kafkajsClient = (kafka: KafkaClient): KafkaClientPort => ({
  name: 'kafkajs',
  check: () => undefined,
  ask: (ask, { groupId, runtime }) =>
    askCluster(kafka, runtime, (admin) => ask(viewOf(kafka, groupId, admin))),
  consumers: () => {
    const before: Before = {}
    return (options, events) => new KafkajsConsumer(kafka, options, events, before)
  },
})

const viewOf = (kafka: KafkaClient, groupId: string, admin: KafkaAdmin): ClusterView => ({
  unseen: (topics) => unseenAmong(admin, topics),
  topicNames: async () => (await topicNames(kafka, groupId)) ?? (await admin.listTopics()),
  topicConfigs: async (topics, names) => {
    await lookOnlyAt(admin, topics[0] ?? '')
    const resources = topics.map((name) => ({ type: TOPIC, name, configNames: [...names] }))
    const described = await admin.describeConfigs({ resources, includeSynonyms: false })
    return new Map(
      described.resources.map(({ resourceName, configEntries }) => [
        resourceName,
        new Map(configEntries.map(({ configName, configValue }) => [configName, configValue])),
      ]),
    )
  },
  replicas: async (topic) => {
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
    return topics.flatMap(({ partitions }) => partitions.map((each) => each.replicas.length))
  },
  consumersOf: async (id) => {
    const { groups } = await admin.describeGroups([id])
    return groups.flatMap(({ members }) => members.map(consumerOf))
  },
})
