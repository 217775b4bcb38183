"""Losses of two precisions side by side: the table, and what goes wrong."""

import pytest
import tensorflow.compat.v1 as tf

import compare_precision
import test_run_pretraining
import tiny

SCRIPT = "scripts/compare_precision.py"


def scalars(loss, masked_lm_loss, next_sentence_loss):
  return dict(loss=loss, masked_lm_loss=masked_lm_loss,
              next_sentence_loss=next_sentence_loss)


def test_table_has_the_difference_from_the_first():
  lines = compare_precision.table({
      "float32": {50: scalars(9.0, 8.25, 0.75), 100: scalars(8, 7.3, 0.7)},
      "bfloat16": {50: scalars(9.5, 8.5, 1.0), 100: scalars(7.99, 7.3, 0.69)}})
  assert lines[0] == ("| step | float32: loss (masked-LM, pair) | bfloat16: loss"
                      " (masked-LM, pair) | bfloat16 - float32 |")
  assert lines[2:] == [
      "| 50 | 9.0000 (8.2500, 0.7500) | 9.5000 (8.5000, 1.0000) | +0.5000 |",
      "| 100 | 8.0000 (7.3000, 0.7000) | 7.9900 (7.3000, 0.6900) | -0.0100 |"]


def test_reads_what_training_wrote(tmp_path):
  with tf.Graph().as_default():
    writer = tf.summary.FileWriter(str(tmp_path))
    for step, values in ((50, scalars(9.0, 8.0, 1.0)), (100, {"loss": 3.0})):
      writer.add_summary(tf.Summary(value=[
          tf.Summary.Value(tag="train/" + key, simple_value=value)
          for key, value in dict(values, learning_rate=0.1).items()]), step)
    writer.add_summary(tf.Summary(value=[
        tf.Summary.Value(tag="loss", simple_value=5.0)]), 70)
    writer.close()
  # A step without all of the losses is none of training's own lines.
  assert compare_precision.read_scalars(str(tmp_path)) == {
      50: scalars(9.0, 8.0, 1.0)}


def test_a_folder_that_is_there(tmp_path):
  (tmp_path / "bfloat16").mkdir()
  result = tiny.run_script(SCRIPT, output_dir=tmp_path)
  tiny.assert_fails(result, str(tmp_path / "bfloat16") + " is there already",
                    "--output_dir")
  assert not (tmp_path / "float32").exists()


def test_steps_that_no_row_ends_with(tmp_path):
  tiny.assert_fails(
      tiny.run_script(SCRIPT, output_dir=tmp_path, num_train_steps=30,
                      every=20),
      "--num_train_steps 30", "--every 20")


def test_a_run_that_fails_shows_its_last_lines(tmp_path):
  result = tiny.run_script(SCRIPT, output_dir=tmp_path, learning_rat=1)
  assert result.returncode != 0
  assert "training in float32 ended with exit code" in result.stderr
  assert "Unknown command line flag" in result.stderr


def test_two_precisions_of_one_run(tmp_path):
  tiny.write_vocab(tmp_path)
  test_run_pretraining.write_records(tmp_path, "train.tfrecord", 8)
  result = tiny.run_script(
      SCRIPT, output_dir=tmp_path / "out", num_train_steps=2, every=1,
      input_file=tmp_path / "train.tfrecord", train_batch_size=2,
      bert_config_file=tiny.write_config(tmp_path),
      max_seq_length=test_run_pretraining.LENGTH,
      max_predictions_per_seq=test_run_pretraining.PREDICTIONS)
  assert result.returncode == 0, result.stderr[-3000:]
  rows = [[cell.strip() for cell in line.strip("|").split("|")]
          for line in result.stdout.splitlines()[2:]]
  assert [row[0] for row in rows] == ["1", "2"]
  first = [float(cell.split()[0]) for cell in rows[0][1:3]]
  assert first[0] == pytest.approx(first[1], abs=0.05)
  assert float(rows[0][3]) == pytest.approx(first[1] - first[0], abs=2e-4)
