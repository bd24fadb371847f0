/**
 * Topics in which Kafka keeps its own state. A consumer of `__consumer_offsets` would add a record to it with each
 * commit, and consume that too, without end.
 */
const OWN_TOPICS = ['__consumer_offsets', '__transaction_state', '__share_group_state']

/** Whether a topic is subscribed to: patterns match no topic of Kafka's own. */
export function matches(subscription: string | RegExp, topic: string): boolean {
  if (typeof subscription === 'string') return subscription === topic
  if (OWN_TOPICS.includes(topic)) return false
  // As kafkajs does, but the pattern of the user keeps its place.
  return new RegExp(subscription.source, subscription.flags.replaceAll(/[gy]/g, '')).test(topic)
}
