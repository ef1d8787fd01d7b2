"""Fine-tunes a pre-trained ELECTRA on a labelled set.

python -m electra_tf.run_finetuning --gin_file=gin/quickstart_finetuning.gin

Run it again after an interruption and it goes on from its last checkpoint.
"""

from electra_tf import configs, launch


def _run(config, before_training) -> None:
    # Imports TensorFlow: late, so that mistakes in a gin file show at once.
    from electra_tf.finetuning import finetune

    results = finetune.finetune(config, before_training)
    print(finetune.format_results(results))
    print(f"fine-tuned model: {config.run.model_dir}")


if __name__ == "__main__":
    launch.launch("run_finetuning", configs.FinetuningConfig, _run)
