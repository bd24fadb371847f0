interface StoredPartition {
  readonly consumer: string
  readonly topic: string
  readonly partition: number
}

/** The command that lets a consumer go on with another record of one partition, as it is typed in a shell. */
export const resetCommand = (
  { consumer, partition, topic }: StoredPartition,
  to: number,
): string => {
  const which = `--consumer ${word(consumer)} --topic ${word(topic)} --partition ${partition}`
  return `npx onceward offsets reset ${which} --to ${to}`
}

const word = (text: string): string =>
  /^[\w.:/@-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
